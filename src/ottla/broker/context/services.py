"""The parts of a broker that handlers use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.bounds.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.admin.rename_fences import RenameFences
    from ottla.broker.admin.resize_fences import ResizeFences
    from ottla.broker.admin.topic_settings import TopicSettings
    from ottla.broker.admin.topics import TopicAdmin
    from ottla.broker.context.listener_roles import ListenerRoles
    from ottla.broker.fetching.service import FetchService
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.membership.ports import ControllerPort
    from ottla.broker.metrics.counts import RequestMetrics
    from ottla.broker.metrics.tally import PartitionTally
    from ottla.broker.notes.topic_notes import TopicNotes
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.quotas.mutations import MutationQuotas
    from ottla.broker.replication.controller_orders import ControllerOrders
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.broker.replication.stale_logs import StaleLogs
    from ottla.config.broker import BrokerConfig
    from ottla.coordinator.groups.coordinator import GroupCoordinator
    from ottla.coordinator.producer_ids import ProducerIds
    from ottla.coordinator.transactions.coordinator import TransactionCoordinator
    from ottla.coordinator.transactions.markers import MarkerWrites
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime
    from ottla.security.authorizer import AclAuthorizer
    from ottla.security.delegation_tokens import DelegationTokens
    from ottla.security.tls.broker import BrokerTls


@dataclass(slots=True)
class BrokerServices:
    """One per broker process; made by process/node.py, shared by all connections."""

    runtime: Runtime
    config: BrokerConfig
    broker_id: int
    cluster_id: str
    store: MetadataStore
    metadata_cache: MetadataCache
    replica_manager: ReplicaManager
    fetches: FetchService
    orders: ControllerOrders
    stale_logs: StaleLogs
    controller: ControllerPort
    topic_admin: TopicAdmin
    groups: GroupCoordinator
    producer_ids: ProducerIds
    transactions: TransactionCoordinator
    marker_writes: MarkerWrites
    topic_settings: TopicSettings
    mutation_quotas: MutationQuotas
    # Where the controller and other brokers are listened to.
    listener_roles: ListenerRoles
    # What this broker did about topics, and how many partitions it has, for those who look at it.
    topic_notes: TopicNotes
    rename_fences: RenameFences
    resize_fences: ResizeFences
    partition_tally: PartitionTally
    connection_count: Callable[[], int]
    handled_requests: Callable[[], int]
    # None: everything is allowed.
    authorizer: AclAuthorizer | None = None
    # None: the brokers have no key for tokens.
    delegation_tokens: DelegationTokens | None = None
    # None: clients have no quotas.
    client_quotas: ClientQuotas | None = None
    # None: nothing is counted.
    request_metrics: RequestMetrics | None = None
    # Of the event loop, for requests that are long work.
    turns: Turns = field(default_factory=Turns)
    # None: no listener is encrypted.
    tls: BrokerTls | None = None
