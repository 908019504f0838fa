"""The parts of transactions in one broker, joined (called by the composition root)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.producer_ids import ProducerIds
from ottla.coordinator.transactions.coordinator import TransactionCoordinator
from ottla.coordinator.transactions.markers import LeaderLookup, MarkerSender, MarkerWrites
from ottla.coordinator.transactions.peers import PeerChannels
from ottla.runtime import Runtime

if TYPE_CHECKING:
    from ottla.security.sasl.exchange import Credentials
    from ottla.types import Endpoint


class ClusterView(ClusterMetadata, LeaderLookup, Protocol):
    """The metadata cache."""


class PeerAccess(NamedTuple):
    """How this broker reaches others: their addresses and what it shows to them."""

    broker_id: int
    endpoint_of: Callable[[int], Endpoint | None]
    credentials: Credentials | None


class TransactionParts(NamedTuple):
    coordinator: TransactionCoordinator
    marker_writes: MarkerWrites
    producer_ids: ProducerIds
    peers: PeerChannels

    async def shutdown(self) -> None:
        await self.coordinator.shutdown()
        await self.peers.shutdown()


def transaction_parts(
    runtime: Runtime,
    config: CoordinatorConfig,
    replicas: CoordinatorReplicas,
    cluster: ClusterView,
    groups: GroupCoordinator,
    producer_ids: ProducerIds,
    access: PeerAccess,
) -> TransactionParts:
    timeout_ms = config.integer("request.timeout.ms")
    peers = PeerChannels(runtime.network, access.endpoint_of, access.broker_id, access.credentials)
    writes = MarkerWrites(runtime.clock, replicas, groups.in_transactions.end, timeout_ms)
    sender = MarkerSender(access.broker_id, cluster, writes, peers, timeout_ms)
    coordinator = TransactionCoordinator(runtime, config, replicas, cluster, producer_ids, sender)
    return TransactionParts(coordinator, writes, producer_ids, peers)
