"""One broker process: makes the parts and joins them, in the order of Kafka's KafkaServer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ottla.bounds.collector import uncollected
from ottla.broker.membership import registration
from ottla.broker.network.limits import ConnectionQuotas
from ottla.broker.network.memory import accounts as memory_accounts
from ottla.broker.network.server import BrokerServer
from ottla.broker.replication.catch_up import settle_when_named
from ottla.errors import InvariantViolated
from ottla.metadata import znodes
from ottla.metadata.store import NoAuthError, SessionState, StoreError, StoreUnreachableError
from ottla.process.parts import NodeParts
from ottla.process.settings import StartError, check_features, java_date, with_dynamic_config
from ottla.process.stop_signals import stop_signals
from ottla.process.store_identity import secured, store_credentials, with_identity
from ottla.process.tuning import share_for_connections
from ottla.process.up_options import DIGEST_FILE
from ottla.security.setup import (
    check_security,
    make_login_delays,
    make_sasl_users,
    make_tls,
    make_token_keys,
    store_context,
)
from ottla.storage.manager import identity
from ottla.storage.manager.dir_lock import DirLocks
from ottla.wire import native

if TYPE_CHECKING:
    from ottla.broker.context.services import BrokerServices
    from ottla.config.broker import BrokerConfig
    from ottla.controller.controller import Controller
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime
    from ottla.security.tls.broker import BrokerTls
    from ottla.types import Endpoint

logger = logging.getLogger(__name__)

# How long a started broker waits to hear of itself from the controller. Kafka does not wait;
# whoever starts a cluster here may use it as soon as the start returned.
_FIRST_METADATA_MS = 10_000
_REJOIN_PAUSE_S = 1.0


class Node:
    """A broker. `store` is a session of its own; without one it connects to ZooKeeper.

    `strict_transitions` is for simulation and tests: see `Controller`.
    """

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        store: MetadataStore | None = None,
        *,
        strict_transitions: bool = False,
    ) -> None:
        self.config = config
        self.strict_transitions = strict_transitions
        self.dir_locks = DirLocks(runtime.disk)
        self.runtime = runtime
        # Of listeners that are encrypted; None where none is.
        self.tls: BrokerTls | None = None
        # Set when the broker can no longer do its duty; `run_broker` then ends with the error.
        self.failed: asyncio.Future[None] | None = None
        self._store = store
        self._parts: NodeParts | None = None
        self._servers: list[BrokerServer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        # How to end what was started, the last one first.
        self._endings: list[Callable[[], Awaitable[None]]] = []
        self._must_rejoin = False
        self._stopping = False

    @property
    def port(self) -> int:
        """The first listener's port (useful after asking for port 0)."""
        return self._servers[0].port

    @property
    def broker_id(self) -> int:
        return self.services.broker_id

    @property
    def services(self) -> BrokerServices:
        return self.parts.services

    @property
    def controller(self) -> Controller:
        return self.parts.controller

    @property
    def parts(self) -> NodeParts:
        if self._parts is None:
            raise InvariantViolated("the broker is not started")
        return self._parts

    # start

    async def start(self) -> None:
        """Returns when the broker serves and the controller has told it of the cluster."""
        self.failed = asyncio.get_running_loop().create_future()
        # Logs, leaderships and metadata: nearly all that is made here stays.
        with uncollected():
            try:
                await self._start()
            except BaseException:
                await self.stop(controlled=False)
                raise
            await self._await_metadata()

    async def _start(self) -> None:
        check_security(self.config)
        self._endings.append(self.dir_locks.release)
        self.dir_locks.take_all(self.config.log_dirs)
        given = self._store
        store = self._store = (
            await _connect(self.config, self.runtime)
            if given is None
            else await with_identity(self.config, given)
        )
        self._endings.append(store.close)
        try:
            await registration.create_permanent_paths(store)
        except NoAuthError as error:
            raise StartError(
                f"the store lets others change {error.path}, not this broker: {DIGEST_FILE} names "
                "the file with their user:password"
            ) from None
        await check_features(store)
        cluster_id = await registration.cluster_id(store, self.runtime.random)
        broker_id = await self._settle_broker_id(store, cluster_id)
        self.config = await with_dynamic_config(self.config, store, broker_id)
        self.tls = make_tls(self.config, self.runtime)
        parts = self._parts = NodeParts(self, store, broker_id, cluster_id)
        self._endings += [parts.channel.shutdown, parts.controller.stop]
        await _load_settings(parts, store)
        await parts.log_manager.start()
        self._endings += [parts.log_manager.shutdown, parts.alter_isr.shutdown]
        await self._open_listeners(parts)
        await parts.replica_manager.start()
        self._endings.append(parts.replica_manager.shutdown)
        await parts.groups.start()
        await parts.transactions.coordinator.start()
        self._endings += [
            parts.groups.shutdown,
            parts.transactions.shutdown,
            parts.undeleted.close,
            parts.stale_logs.trash.close,
            parts.topic_admin.close,
            parts.services.rename_fences.close,
            parts.services.resize_fences.close,
            parts.config_changes.stop,
        ]
        store.add_session_listener(self._session_changed)
        await self._register(check_endpoints=True)
        await self._settle_logs()
        parts.stale_logs.tell_strays()
        identity.write_identity(
            self.runtime.disk,
            parts.log_manager.dirs.online(),
            broker_id=broker_id,
            cluster_id=cluster_id,
            comment=java_date(self.runtime.clock.now_ms()),
        )
        if self.config.boolean("ottla.lifecycle.topic.enable"):
            self._endings.append(parts.publish_lifecycle())
        await parts.controller.start()
        await self._follow_security(parts)
        await parts.config_changes.start()
        if parts.metrics is not None:
            self._endings.append(parts.metrics.close)
            gauges, network = parts.controller.gauges, self.runtime.network
            await parts.metrics.serve(parts.services, network, gauges, self.connection_count)
        for server in self._servers:
            server.start_processing(parts.services)
        logger.info("broker %d of cluster %s serves", broker_id, cluster_id)
        logger.info("records are looked at by %s", native.in_force())

    async def _open_listeners(self, parts: NodeParts) -> None:
        """Binds their sockets; nothing is read from them yet."""
        quotas = ConnectionQuotas(self.config, share_for_connections(), parts.connection_rates)
        token_keys = make_token_keys(self.config, self.runtime)
        for keys in token_keys.values():
            self._endings.append(keys.stop)
            await keys.start()
        sasl_users = make_sasl_users(parts.scram_users, token_keys, self.runtime)
        delays = make_login_delays(self.config)
        memory = memory_accounts(self.config)
        for endpoint in self.config.listeners:
            is_tls = endpoint.security_protocol.endswith("SSL")
            tls = self.tls.endpoint(endpoint.listener) if self.tls and is_tls else None
            account = memory[endpoint.listener]
            server = BrokerServer(
                self.runtime, self.config, endpoint, quotas, account, sasl_users, delays, tls
            )
            await _bind(server, endpoint)
            self._servers.append(server)

    async def _follow_security(self, parts: NodeParts) -> None:
        """ACLs and delegation tokens, where there are any, from now on."""
        authorizer = parts.services.authorizer
        if authorizer is not None:
            self._endings.append(authorizer.stop)
            await authorizer.start()
        tokens = parts.delegation_tokens
        if tokens is not None:
            self._endings.append(tokens.stop)
            await tokens.start(lambda: parts.controller.is_active)

    async def _settle_broker_id(self, store: MetadataStore, cluster_id: str) -> int:
        stored = identity.read_identity(self.runtime.disk, self.config.log_dirs)
        identity.check_identity(stored, broker_id=self.config.broker_id, cluster_id=cluster_id)
        if self.config.broker_id >= 0:
            return self.config.broker_id
        if stored.broker_id is not None:
            return stored.broker_id
        return await registration.generate_broker_id(
            store, self.config.integer("reserved.broker.max.id")
        )

    async def _register(self, *, check_endpoints: bool) -> None:
        services = self.services
        info = znodes.BrokerInfo(
            broker_id=services.broker_id,
            endpoints=tuple(self._advertised()),
            rack=self.config.rack,
            timestamp_ms=self.runtime.clock.now_ms(),
        )
        if check_endpoints:
            await registration.check_endpoints(services.store, info)
        services.orders.epochs.broker_epoch = await registration.register(
            services.store,
            info,
            session_timeout_ms=services.store.session_timeout_ms,
        )

    def _advertised(self) -> list[Endpoint]:
        """What clients are told; a port that was left to the system is known by now."""
        bound = {server.listener: server.port for server in self._servers}
        return [
            endpoint if endpoint.port else endpoint._replace(port=bound[endpoint.listener])
            for endpoint in self.config.advertised_listeners
        ]

    async def _await_metadata(self) -> None:
        cache, own_id = self.services.metadata_cache, self.broker_id
        deadline_ms = self.runtime.clock.monotonic_ms() + _FIRST_METADATA_MS
        told = asyncio.Event()
        listener = lambda _topics: told.set()  # noqa: E731 - needed twice, by identity
        cache.add_listener(listener)
        try:
            while cache.broker(own_id) is None:
                left_ms = deadline_ms - self.runtime.clock.monotonic_ms()
                try:
                    await asyncio.wait_for(told.wait(), max(0, left_ms) / 1000)
                except TimeoutError:
                    logger.warning("no controller has told this broker of the cluster yet")
                    return
                told.clear()
        finally:
            cache.remove_listener(listener)

    # the session

    def _session_changed(self, state: SessionState) -> None:
        if self._stopping:
            return
        if state is SessionState.EXPIRED:
            logger.warning("the session in the store expired")
            self._must_rejoin = True
            self.services.orders.epochs.registration_ended()
            self.controller.on_session_expired()
        elif state is SessionState.CONNECTED and self._must_rejoin:
            self._must_rejoin = False
            self.spawn(self._rejoin())

    async def _settle_logs(self) -> None:
        unnamed = await self.parts.stale_logs.settle()
        if unnamed:
            self.spawn(settle_when_named(self.parts.stale_logs, unnamed))

    async def _rejoin(self) -> None:
        """Under a new session: register with a new epoch, then take part in elections again."""
        while True:
            try:
                # Before, so that no order for a topic's new life meets the log of its old one;
                # after, because topics may have ended in between.
                await self.parts.stale_logs.settle()
                await self.parts.stale_logs.forget_ended_topics()
                if self.parts.scram_users is not None:
                    # Notes live for 15 minutes: users may have gone unseen.
                    await self.parts.scram_users.load_all(self.services.store)
                await self._register(check_endpoints=False)
                await self._settle_logs()
                break
            except registration.RegistrationError as error:
                self.fail(error)
                return
            except StoreError as error:
                logger.warning("registering again failed, trying once more: %r", error)
                await asyncio.sleep(_REJOIN_PAUSE_S)
        self.parts.config_changes.on_new_session()
        if self.services.authorizer is not None:
            self.services.authorizer.on_new_session()
        if self.services.delegation_tokens is not None:
            self.services.delegation_tokens.on_new_session()
        await self.controller.on_new_session()

    def connection_count(self) -> int:
        return sum(server.connection_count for server in self._servers)

    def handled_requests(self) -> int:
        return sum(server.handled_requests for server in self._servers)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Broker configs changed while it runs."""
        self.config = config
        if self.tls is not None:
            self.tls.reconfigure(config)
        for server in self._servers:
            server.reconfigure(config)

    def fail(self, error: Exception) -> None:
        """The broker cannot go on; whoever runs it is told."""
        logger.error("this broker must stop: %s", error)
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)
            self.failed.exception()  # retrieved: a node in a test may have nobody who awaits it

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background until the node stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # stop

    async def stop(self, *, controlled: bool = True) -> None:
        """Hands leadership over where `controlled`, then ends every part and the session."""
        parts = self._parts
        hand_over = controlled and self.config.boolean("controlled.shutdown.enable")
        if hand_over and parts is not None and not self._stopping:
            from ottla.broker.membership.controlled_shutdown import leave_in_order

            parts.replica_manager.fetchers.is_leaving = True
            await leave_in_order(parts.services, lambda: parts.orders.epochs.broker_epoch)
        self._stopping = True
        if not controlled and parts is not None:
            # With the whole cluster: nothing is left to decide, and nobody there to send it to.
            await parts.controller.stop()
        for server in self._servers:
            await server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        while self._endings:
            ending = self._endings.pop()
            try:
                await ending()
            except Exception:
                # The other parts must still end: logs are closed, the session is given back.
                logger.exception("a part of the broker did not end cleanly")


async def _bind(server: BrokerServer, endpoint: Endpoint) -> None:
    try:
        await server.open()
    except OSError as error:
        host = endpoint.host or "0.0.0.0"
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise StartError(
            f"Socket server failed to bind to {host}:{endpoint.port}: {reason}. "
            "(listeners chooses the address)"
        ) from None


async def _load_settings(parts: NodeParts, store: MetadataStore) -> None:
    await parts.topic_settings.load_all()
    await parts.mutation_quotas.load_all(store)
    await parts.client_quotas.load_all(store)
    await parts.connection_rates.load_all(store)
    if parts.scram_users is not None:
        await parts.scram_users.load_all(store)


async def _connect(config: BrokerConfig, runtime: Runtime) -> MetadataStore:
    from ottla.zk.client.store import ZooKeeperClient

    context = store_context(config, runtime)
    try:
        store = await ZooKeeperClient.connect(
            runtime,
            config.zookeeper_connect,
            session_timeout_ms=config.integer("zookeeper.session.timeout.ms"),
            connect_timeout_ms=config.integer("zookeeper.connection.timeout.ms"),
            credentials=store_credentials(config),
            ssl_context=context,
        )
    except StoreUnreachableError as error:
        raise StartError(
            f"{error}; zookeeper.connect (`ottla up --zookeeper`) says where it is"
        ) from None
    return await secured(config, store)


async def run_broker(
    config: BrokerConfig, runtime: Runtime, ready: Callable[[Node], None] | None = None
) -> None:
    """Runs a broker until SIGTERM, SIGINT or SIGHUP; raises OttlaError where it cannot go on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stop.set)
    node = Node(config, runtime)
    await node.start()
    if ready is not None:
        ready(node)

    async def controlled() -> bool:
        return await stop.wait()

    await serve_until(node, controlled())


async def serve_until(node: Node, asked: Coroutine[Any, Any, bool]) -> None:
    """Serves until `asked` returns (true: leave with a controlled shutdown) or the node fails."""
    failed = node.failed
    if failed is None:
        raise InvariantViolated("a started node has no way to fail")
    asking = asyncio.get_running_loop().create_task(asked)
    try:
        await asyncio.wait((asking, failed), return_when=asyncio.FIRST_COMPLETED)
        await node.stop(controlled=not failed.done() and asking.result())
    finally:
        asking.cancel()
    if failed.done():
        failed.result()
