"""The APIs that this broker serves: one table that dispatches and answers ApiVersions.

Each route names a module beside this file with `async def handle(ctx, request) -> response | None`.
Modules and messages are imported at the first request for them, which keeps a broker's start
short. Versions are those of the Kafka 3.9 schemas, from 0 (librdkafka and aiokafka use low ones);
AlterPartition stays at 0 and AddPartitionsToTxn at 3 so that a 3.x peer keeps to 2.8 behaviour;
delegation tokens stay at 2, before tokens for other users.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.context.listener_roles import Sender

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

Handler = Callable[["RequestContext", Any], Coroutine[Any, Any, Any]]


class Route(NamedTuple):
    """One API: its key, Kafka's name, the handler's module and the versions it is served in.

    The first step of an `eager` handler runs straight from the socket's callback, without a task:
    such a handler must not use `asyncio.timeout` before its first real wait. Where only
    one `sender` has use for a request, it is refused on listeners that others use.
    """

    api_key: int
    name: str
    module: str
    min_version: int
    max_version: int
    eager: bool = False
    sender: Sender | None = None


ROUTES: tuple[Route, ...] = (
    Route(0, "Produce", "produce", 0, 11, eager=True),
    Route(1, "Fetch", "fetch", 0, 17, eager=True),
    Route(2, "ListOffsets", "list_offsets", 0, 9),
    Route(3, "Metadata", "metadata", 0, 12, eager=True),
    # Refuses other senders itself: its error form is its own.
    Route(4, "LeaderAndIsr", "leader_and_isr", 0, 7),
    Route(5, "StopReplica", "stop_replica", 0, 4, sender=Sender.CONTROLLER),
    Route(6, "UpdateMetadata", "update_metadata", 0, 8, sender=Sender.CONTROLLER),
    Route(7, "ControlledShutdown", "controlled_shutdown", 0, 3, sender=Sender.BROKER),
    Route(8, "OffsetCommit", "offset_commit", 0, 9),
    Route(9, "OffsetFetch", "offset_fetch", 0, 9),
    Route(10, "FindCoordinator", "find_coordinator", 0, 6),
    Route(11, "JoinGroup", "join_group", 0, 9),
    Route(12, "Heartbeat", "heartbeat", 0, 4),
    Route(13, "LeaveGroup", "leave_group", 0, 5),
    Route(14, "SyncGroup", "sync_group", 0, 5),
    Route(15, "DescribeGroups", "describe_groups", 0, 5),
    Route(16, "ListGroups", "list_groups", 0, 5),
    Route(17, "SaslHandshake", "sasl_handshake", 0, 1),
    Route(18, "ApiVersions", "api_versions", 0, 4, eager=True),
    Route(19, "CreateTopics", "create_topics", 0, 7),
    Route(20, "DeleteTopics", "delete_topics", 0, 6),
    Route(21, "DeleteRecords", "delete_records", 0, 2),
    Route(22, "InitProducerId", "init_producer_id", 0, 5),
    Route(23, "OffsetForLeaderEpoch", "offset_for_leader_epoch", 0, 4),
    Route(24, "AddPartitionsToTxn", "add_partitions_to_txn", 0, 3),
    Route(25, "AddOffsetsToTxn", "add_offsets_to_txn", 0, 4),
    Route(26, "EndTxn", "end_txn", 0, 4),
    Route(27, "WriteTxnMarkers", "write_txn_markers", 0, 1, sender=Sender.BROKER),
    Route(28, "TxnOffsetCommit", "txn_offset_commit", 0, 4),
    Route(29, "DescribeAcls", "describe_acls", 0, 3),
    Route(30, "CreateAcls", "create_acls", 0, 3),
    Route(31, "DeleteAcls", "delete_acls", 0, 3),
    Route(32, "DescribeConfigs", "describe_configs", 0, 4),
    Route(33, "AlterConfigs", "alter_configs", 0, 2),
    Route(34, "AlterReplicaLogDirs", "alter_replica_log_dirs", 0, 2),
    Route(35, "DescribeLogDirs", "describe_log_dirs", 0, 4),
    Route(36, "SaslAuthenticate", "sasl_authenticate", 0, 2),
    Route(37, "CreatePartitions", "create_partitions", 0, 3),
    Route(38, "CreateDelegationToken", "create_delegation_token", 0, 2),
    Route(39, "RenewDelegationToken", "renew_delegation_token", 0, 2),
    Route(40, "ExpireDelegationToken", "expire_delegation_token", 0, 2),
    Route(41, "DescribeDelegationToken", "describe_delegation_token", 0, 2),
    Route(42, "DeleteGroups", "delete_groups", 0, 2),
    Route(43, "ElectLeaders", "elect_leaders", 0, 2),
    Route(44, "IncrementalAlterConfigs", "incremental_alter_configs", 0, 1),
    Route(45, "AlterPartitionReassignments", "alter_partition_reassignments", 0, 0),
    Route(46, "ListPartitionReassignments", "list_partition_reassignments", 0, 0),
    Route(47, "OffsetDelete", "offset_delete", 0, 0),
    Route(48, "DescribeClientQuotas", "describe_client_quotas", 0, 1),
    Route(49, "AlterClientQuotas", "alter_client_quotas", 0, 1),
    Route(50, "DescribeUserScramCredentials", "describe_user_scram_credentials", 0, 0),
    Route(51, "AlterUserScramCredentials", "alter_user_scram_credentials", 0, 0),
    Route(56, "AlterPartition", "alter_partition", 0, 0, sender=Sender.BROKER),
    Route(60, "DescribeCluster", "describe_cluster", 0, 1),
    Route(61, "DescribeProducers", "describe_producers", 0, 0),
    Route(65, "DescribeTransactions", "describe_transactions", 0, 0),
    Route(66, "ListTransactions", "list_transactions", 0, 1),
    # Ottla's own (ADR 41).
    Route(20000, "DescribeStrayLogs", "describe_stray_logs", 0, 0),
    Route(20001, "BrokerView", "broker_view", 0, 0),
    Route(20002, "ControllerView", "controller_view", 0, 0),
    Route(20003, "DescribeDeletedTopics", "describe_deleted_topics", 0, 0),
    Route(20004, "UndeleteTopics", "undelete_topics", 0, 0),
    Route(20005, "PurgeDeletedTopics", "purge_deleted_topics", 0, 0),
    Route(20006, "RenameTopics", "rename_topics", 0, 0),
    Route(20007, "CarryOffsets", "carry_offsets", 0, 0),
    Route(20008, "BeginResize", "begin_resize", 0, 0),
    Route(20009, "DescribeResize", "describe_resize", 0, 0),
    Route(20010, "FenceResize", "fence_resize", 0, 0),
    Route(20011, "FinishResize", "finish_resize", 0, 0),
    Route(20012, "AbortResize", "abort_resize", 0, 0),
    Route(20013, "ResizeOrder", "resize_order", 0, 0),
)

ROUTES_BY_KEY: dict[int, Route] = {route.api_key: route for route in ROUTES}


@dataclass(frozen=True, slots=True)
class LoadedRoute:
    """A route with its code: the handler and the two message classes."""

    route: Route
    handle: Handler
    request_class: Any
    response_class: Any


_loaded: dict[int, LoadedRoute] = {}


def load(route: Route) -> LoadedRoute:
    """Imports the handler and compiles the messages of a route, once."""
    loaded = _loaded.get(route.api_key)
    if loaded is None:
        from ottla.wire import messages

        module = import_module(f"{__name__}.{route.module}")
        loaded = _loaded[route.api_key] = LoadedRoute(
            route,
            module.handle,
            getattr(messages, f"{route.name}Request"),
            getattr(messages, f"{route.name}Response"),
        )
    return loaded
