"""The parts of one broker process and how they are joined (KafkaServer's fields)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.admin.config_changes import ConfigChanges
from ottla.broker.admin.live_config import LiveConfig
from ottla.broker.admin.rename_fences import RenameFences
from ottla.broker.admin.resize_fences import ResizeFences
from ottla.broker.admin.topic_settings import TopicSettings
from ottla.broker.admin.topics import TopicAdmin
from ottla.broker.admin.trash import kept_until
from ottla.broker.context.listener_roles import listener_roles
from ottla.broker.context.services import BrokerServices
from ottla.broker.fetching.service import FetchService
from ottla.broker.membership.controller_channel import ControllerChannel
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.metrics.setup import metrics_of
from ottla.broker.metrics.tally import PartitionTally
from ottla.broker.notes.topic_notes import TopicNotes
from ottla.broker.quotas.clients import ClientQuotas
from ottla.broker.quotas.connection_rates import ConnectionRates
from ottla.broker.quotas.mutations import MutationQuotas
from ottla.broker.replication.alter_isr import AlterIsrManager
from ottla.broker.replication.catch_up import CatchUp
from ottla.broker.replication.controller_orders import ControllerOrders
from ottla.broker.replication.order_epochs import OrderEpochs, stored_controller_epoch
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.broker.replication.stale_logs import StaleLogs
from ottla.broker.replication.undeleted_transactions import UndeletedTransactions
from ottla.client.connection import Connection
from ottla.controller.controller import Controller
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.coordinator.producer_ids import ProducerIds
from ottla.coordinator.transactions.parts import PeerAccess, TransactionParts, transaction_parts
from ottla.metadata import znodes
from ottla.metadata.store import CreateMode
from ottla.process.settings import StartError, controller_config
from ottla.process.tuning import share_for_segments
from ottla.security.setup import (
    make_authorizer,
    make_scram_users,
    make_tokens,
    peer_credentials,
)
from ottla.storage.manager.log_manager import MAX_OPEN_FILES, LogManager

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Network, Runtime
    from ottla.security.authorizer import AclAuthorizer
    from ottla.security.tls.broker import BrokerTls
    from ottla.storage.manager.dir_lock import DirLocks

_UNCLEAN_ELECTION = "unclean.leader.election.enable"


class Process(Protocol):
    """What the parts of a broker ask of the process around them: `Node`."""

    config: BrokerConfig
    runtime: Runtime
    dir_locks: DirLocks
    strict_transitions: bool
    tls: BrokerTls | None

    def connection_count(self) -> int:
        """Of all listeners."""

    def handled_requests(self) -> int:
        """Of all listeners, since the start."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs work in the background until the process stops."""

    def reconfigure(self, config: BrokerConfig) -> None:
        """Broker configs changed while it runs."""

    def fail(self, error: Exception) -> None:
        """The broker cannot go on; whoever runs it is told."""


class NodeParts:
    """What a started broker consists of."""

    def __init__(
        self, process: Process, store: MetadataStore, broker_id: int, cluster_id: str
    ) -> None:
        config, runtime = process.config, process.runtime
        self._process = process
        self._store = store
        # Connections to other brokers are encrypted where the listener is.
        self._control_network = self._network_of(config.control_listener)
        self._peer_runtime = replace(
            runtime, network=self._network_of(config.inter_broker_listener)
        )
        cache = MetadataCache()
        self.topic_settings = TopicSettings(config, store)
        self.topic_settings.forget_deleted(cache)
        self.topic_notes = TopicNotes(runtime.clock)
        self.log_manager = self._make_log_manager()
        self.control_credentials = peer_credentials(config, config.control_listener)
        self.channel = self._controller_channel(cache, broker_id)
        epochs = OrderEpochs(ask_store=stored_controller_epoch(store))
        self.alter_isr = AlterIsrManager(self.channel, broker_id, lambda: epochs.broker_epoch)
        self.metrics = metrics_of(config, self.alter_isr, lambda: self.replica_manager)
        self.replica_manager = ReplicaManager(
            self._peer_runtime,
            config,
            self.log_manager,
            cache,
            self.alter_isr if self.metrics is None else self.metrics.isr_changes,
            broker_id=broker_id,
            on_dir_failure=self._dir_failed,
        )
        self.fetches = self._fetch_service(cache)
        self.orders = ControllerOrders(self.replica_manager, epochs, self.topic_notes)
        self.stale_logs = StaleLogs(store, self.replica_manager, self.topic_settings.load)
        cache.add_listener(CatchUp(self.stale_logs, cache, process.spawn).metadata_came)
        kept = kept_until(store, runtime.clock)
        self.groups = GroupCoordinator(runtime, config, self.replica_manager, cache, kept)
        self.transactions = self._transaction_parts(cache, broker_id)
        markers = self.transactions.marker_writes
        self.undeleted = UndeletedTransactions(self.replica_manager, runtime.disk, markers)
        self._controller_config = controller_config(config)
        self.controller = Controller(
            runtime,
            store,
            broker_id,
            self._controller_config,
            self._connect_to_broker,
            strict_transitions=process.strict_transitions,
        )
        self.topic_admin = TopicAdmin(
            config, runtime, store, cache, self.controller, self.channel, self.topic_notes
        )
        self.mutation_quotas = MutationQuotas(runtime.clock, config, cache)
        self.client_quotas = ClientQuotas(runtime.clock, config)
        self.connection_rates = ConnectionRates(config)
        # These two are None where nobody has to say who connects.
        self.delegation_tokens = make_tokens(config, runtime, store)
        self.scram_users = make_scram_users(config, self.delegation_tokens)
        self.config_changes = self._config_changes(broker_id)
        self.services = self._join(broker_id, cluster_id, cache)

    def _transaction_parts(self, cache: MetadataCache, broker_id: int) -> TransactionParts:
        config, runtime = self._process.config, self._process.runtime
        return transaction_parts(
            self._peer_runtime,
            config,
            self.replica_manager,
            cache,
            self.groups,
            ProducerIds(runtime, self._store, broker_id),
            _peer_access(config, cache, broker_id),
        )

    def _controller_channel(self, cache: MetadataCache, broker_id: int) -> ControllerChannel:
        return ControllerChannel(
            self._control_network,
            cache,
            self._process.config.control_listener,
            broker_id,
            self.control_credentials,
        )

    def _config_changes(self, broker_id: int) -> ConfigChanges:
        return ConfigChanges(
            self._store,
            self._process.runtime.clock,
            self._take_topic_config,
            LiveConfig(self._process.config, broker_id, self._take_broker_config),
            self._take_quota,
        )

    def _make_log_manager(self) -> LogManager:
        process = self._process
        logs = LogManager(
            process.runtime,
            process.config,
            self.topic_settings.of,
            lock_dir=process.dir_locks.take,
            max_open_files=share_for_segments(MAX_OPEN_FILES),
            owners_are_known=False,
        )
        logs.listen(self.topic_notes.folder)
        return logs

    def _fetch_service(self, cache: MetadataCache) -> FetchService:
        replicas = self.replica_manager
        return FetchService(
            self._process.runtime,
            self._process.config,
            replicas.partitions,
            cache,
            replicas.throttles,
            replicas.timeouts,
        )

    def _join(self, broker_id: int, cluster_id: str, cache: MetadataCache) -> BrokerServices:
        """What all connections share."""
        config, runtime, store = self._process.config, self._peer_runtime, self._store
        return BrokerServices(
            runtime=runtime,
            config=config,
            broker_id=broker_id,
            cluster_id=cluster_id,
            store=store,
            metadata_cache=cache,
            replica_manager=self.replica_manager,
            fetches=self.fetches,
            orders=self.orders,
            stale_logs=self.stale_logs,
            controller=self.controller,
            topic_admin=self.topic_admin,
            groups=self.groups,
            producer_ids=self.transactions.producer_ids,
            transactions=self.transactions.coordinator,
            marker_writes=self.transactions.marker_writes,
            topic_settings=self.topic_settings,
            mutation_quotas=self.mutation_quotas,
            listener_roles=listener_roles(config),
            topic_notes=self.topic_notes,
            rename_fences=RenameFences(store, self.groups, self.transactions.coordinator),
            resize_fences=ResizeFences(
                store,
                self.replica_manager.partitions,
                self.groups,
                self.transactions.coordinator,
            ),
            partition_tally=PartitionTally(runtime.clock),
            connection_count=self._process.connection_count,
            handled_requests=self._process.handled_requests,
            authorizer=self._authorizer(config, runtime, store),
            delegation_tokens=self.delegation_tokens,
            client_quotas=self.client_quotas,
            request_metrics=None if self.metrics is None else self.metrics.requests,
            tls=self._process.tls,
        )

    def _authorizer(
        self, config: BrokerConfig, runtime: Runtime, store: MetadataStore
    ) -> AclAuthorizer | None:
        authorizer = make_authorizer(config, runtime, store)
        if authorizer is not None:
            authorizer.shadowed_topic = self.replica_manager.metadata_cache.shadowed_topic
        return authorizer

    def _network_of(self, listener: str) -> Network:
        network, tls = self._process.runtime.network, self._process.tls
        return network if tls is None else tls.network(network, listener)

    def publish_lifecycle(self) -> Callable[[], Awaitable[None]]:
        """From now on, until the returned call, the controller's events go to a topic."""
        from ottla.broker.metrics.lifecycle_publisher import LifecyclePublisher

        publisher = LifecyclePublisher(self.services)
        self.controller.journal.add_listener(publisher.offer)
        publisher.start()
        return publisher.stop

    async def _connect_to_broker(self, host: str, port: int) -> Connection:
        """A connection for the controller's requests; its client id is the controller's id."""
        return await Connection.open(
            self._control_network,
            host,
            port,
            client_id=str(self.services.broker_id),
            sasl=self.control_credentials,
        )

    async def _take_quota(self, entity_path: str) -> None:
        await self.mutation_quotas.take(self._store, entity_path)
        await self.client_quotas.take(self._store, entity_path)
        await self.connection_rates.take(self._store, entity_path)
        if self.scram_users is not None:
            await self.scram_users.take(self._store, entity_path)

    def _take_topic_config(self, topic: str, overrides: dict[str, str]) -> None:
        # The controller's broker need not host the topic (TopicConfigHandler).
        if overrides.get(_UNCLEAN_ELECTION, "").lower() == "true":
            self.controller.enable_unclean_leader_election(topic)
        hosted = any(log.tp.topic == topic for log in self.log_manager.logs())
        if not (hosted or self.topic_settings.knows(topic)):
            return
        resolved = self.topic_settings.set(topic, overrides)
        self.log_manager.update_settings(topic, resolved)

    def _take_broker_config(self, old: BrokerConfig, new: BrokerConfig) -> None:
        """Broker configs changed: hands them to the parts that follow them."""
        self._process.reconfigure(new)
        self.services.config = self.topic_admin.config = new
        self.log_manager.reconfigure(new)
        self.replica_manager.throttles.reconfigure(new)
        self._take_log_defaults(new)
        retention_ms = new.integer("ottla.delete.retention.ms")
        self._controller_config.delete_retention_ms = retention_ms
        unclean = new.boolean(_UNCLEAN_ELECTION)
        self._controller_config.unclean_leader_election_enable = unclean
        if unclean and not old.boolean(_UNCLEAN_ELECTION):
            self.controller.enable_unclean_leader_election(None)

    def _take_log_defaults(self, config: BrokerConfig) -> None:
        """New defaults reach every log, under its topic's own configs (DynamicLogConfig)."""
        self.topic_settings.reconfigure(config)
        for log in self.log_manager.logs():
            for copy in (log, self.log_manager.future(log.tp)):
                if copy is not None:
                    copy.use_settings(self.topic_settings.of(log.tp.topic))

    def _dir_failed(self, path: Path) -> None:
        if not self.log_manager.dirs.online():
            self._process.fail(StartError(f"{path} failed and no other folder in log.dirs is left"))
            return
        self._process.spawn(self._report_dir_failure())

    async def _report_dir_failure(self) -> None:
        """The controller then asks this broker which of its replicas are left."""
        await self._store.create(
            znodes.LogDirEventNotificationZnode.path(),
            znodes.LogDirEventNotificationZnode.encode(self.services.broker_id),
            mode=CreateMode.PERSISTENT_SEQUENTIAL,
        )


def _peer_access(config: BrokerConfig, cache: MetadataCache, broker_id: int) -> PeerAccess:
    listener = config.inter_broker_listener
    return PeerAccess(
        broker_id,
        lambda peer_id: cache.endpoint(peer_id, listener),
        peer_credentials(config, listener),
    )
