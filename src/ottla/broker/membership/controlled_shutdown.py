"""A stopping broker asks the controller to move its leaderships away (KafkaServer, KIP-380)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.metadata import znodes
from ottla.metadata.store import ConnectionLossError, SessionExpiredError, StoreError
from ottla.security.setup import peer_credentials
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime
    from ottla.types import Endpoint

logger = logging.getLogger(__name__)

_VERSION = 3
_STORE_TIMEOUT_S = 3.0


class LeavingBroker(Protocol):
    """The parts of a broker that leaving takes."""

    @property
    def broker_id(self) -> int: ...

    @property
    def config(self) -> BrokerConfig: ...

    @property
    def runtime(self) -> Runtime: ...

    @property
    def store(self) -> MetadataStore: ...

    @property
    def metadata_cache(self) -> MetadataCache: ...


async def leave_in_order(broker: LeavingBroker, broker_epoch: Callable[[], int]) -> bool:
    """True when nothing is led by this broker any more; False when it gives up trying.

    The controller is looked up in the store each time: the metadata cache may be behind.
    """
    config = broker.config
    retries = config.integer("controlled.shutdown.max.retries")
    pause_ms = config.integer("controlled.shutdown.retry.backoff.ms")
    for attempt in range(retries):
        if attempt:
            await asyncio.sleep(pause_ms / 1000)
        try:
            async with asyncio.timeout(_STORE_TIMEOUT_S):
                endpoint = await _find_controller(broker)
        except (TimeoutError, ConnectionLossError, SessionExpiredError) as error:
            # Without the store nobody can be elected: there is no point in waiting for it.
            logger.warning("controlled shutdown: the store is not there: %r", error)
            return False
        except (OSError, StoreError, znodes.BadZnodeError) as error:
            logger.info("controlled shutdown: no controller was found: %r", error)
            continue
        try:
            remaining = await _ask(broker, broker_epoch(), endpoint)
        except (OSError, TimeoutError, WireError) as error:
            logger.info("controlled shutdown: the controller was not reached: %s", error)
            continue
        if remaining is not None and not remaining:
            logger.info("controlled shutdown succeeded")
            return True
        logger.info("controlled shutdown: %s", "refused" if remaining is None else remaining)
    logger.warning("controlled shutdown did not succeed, stopping anyway")
    return False


async def _find_controller(broker: LeavingBroker) -> Endpoint:
    data, _ = await broker.store.get(znodes.ControllerZnode.path())
    controller_id = znodes.ControllerZnode.decode(data)
    if controller_id is None:
        raise ConnectionError("/controller names no broker")
    data, _ = await broker.store.get(znodes.BrokerIdZnode.path(controller_id))
    info = znodes.BrokerIdZnode.decode(controller_id, data)
    endpoint = info.endpoint(broker.config.inter_broker_listener)
    if endpoint is None:
        raise ConnectionError(f"controller {controller_id} has no inter-broker listener")
    return endpoint


async def _ask(broker: LeavingBroker, broker_epoch: int, endpoint: Endpoint) -> list[str] | None:
    """Partitions still led here; None where the controller refused."""
    timeout_ms = broker.config.integer("controller.socket.timeout.ms")
    connection = await Connection.open(
        broker.runtime.network,
        endpoint.host,
        endpoint.port,
        client_id=str(broker.broker_id),
        timeout_ms=timeout_ms,
        sasl=peer_credentials(broker.config, endpoint.listener),
    )
    try:
        response = cast(
            "m.ControlledShutdownResponse",
            await connection.send(
                m.ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker_epoch),
                _VERSION,
                timeout_ms=timeout_ms,
            ),
        )
    finally:
        connection.close()
    if response.error_code != ErrorCode.NONE:
        return None
    remaining = [
        TopicPartition(p.topic_name, p.partition_index) for p in response.remaining_partitions
    ]
    return [str(tp) for tp in remaining if _can_move(broker, tp)]


def _can_move(broker: LeavingBroker, tp: TopicPartition) -> bool:
    """A partition with a single replica has nowhere to go: it is not waited for."""
    state = broker.metadata_cache.partition_state(tp)
    return state is None or len(state.replicas) > 1
