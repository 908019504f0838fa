"""Every advertised version of every client API is answered in its own form.

The codec refuses fields that a version does not carry, so a handler that fills in too much fails
here with code -1.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.handlers import ROUTES, Route
from ottla.client.connection import Connection
from ottla.errors import ErrorCode
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from tests.support.integration.local_cluster import LocalCluster

# Only brokers send these; the cluster's own traffic tests the versions that are used.
BETWEEN_BROKERS = {"LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown"}
PER_TOPIC = "t"


def _list_offsets(version: int, timestamp: int) -> m.ListOffsetsRequest:
    partition = m.ListOffsetsRequest.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, max_num_offsets=1
    )
    topic = m.ListOffsetsRequest.ListOffsetsTopic(name=PER_TOPIC, partitions=[partition])
    return m.ListOffsetsRequest(replica_id=-1, topics=[topic])


def _produce(version: int) -> m.ProduceRequest:
    records = build_batch([Record(None, b"value")]) if version >= 3 else b""
    data = m.ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = m.ProduceRequest.TopicProduceData(name=PER_TOPIC, partition_data=[data])
    return m.ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch(version: int, topic_id: bytes) -> m.FetchRequest:
    partition = m.FetchRequest.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    topic = m.FetchRequest.FetchTopic(partitions=[partition])
    if version >= 13:
        topic.topic_id = topic_id
    else:
        topic.topic = PER_TOPIC
    return m.FetchRequest(max_wait_ms=10, min_bytes=1, topics=[topic])


def _metadata(version: int) -> m.MetadataRequest:
    return m.MetadataRequest(topics=[m.MetadataRequest.MetadataRequestTopic(name=PER_TOPIC)])


def _create(version: int) -> m.CreateTopicsRequest:
    topic = m.CreateTopicsRequest.CreatableTopic(
        name=f"made-{version}", num_partitions=1, replication_factor=1
    )
    return m.CreateTopicsRequest(topics=[topic], timeout_ms=5000)


def _delete(version: int) -> m.DeleteTopicsRequest:
    if version >= 6:
        state = m.DeleteTopicsRequest.DeleteTopicState(name="none")
        return m.DeleteTopicsRequest(topics=[state], timeout_ms=10)
    return m.DeleteTopicsRequest(topic_names=["none"], timeout_ms=10)


def _expand(version: int) -> m.CreatePartitionsRequest:
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic(
        name=PER_TOPIC, count=1, assignments=None
    )
    return m.CreatePartitionsRequest(topics=[topic], timeout_ms=10)


def _describe_configs(version: int) -> m.DescribeConfigsRequest:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=PER_TOPIC, configuration_keys=None
    )
    return m.DescribeConfigsRequest(resources=[resource])


def _epochs(version: int) -> m.OffsetForLeaderEpochRequest:
    partition = m.OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = m.OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
        topic=PER_TOPIC, partitions=[partition]
    )
    return m.OffsetForLeaderEpochRequest(topics=[topic])


def _delete_records(version: int) -> m.DeleteRecordsRequest:
    partition = m.DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=0)
    topic = m.DeleteRecordsRequest.DeleteRecordsTopic(name=PER_TOPIC, partitions=[partition])
    return m.DeleteRecordsRequest(topics=[topic], timeout_ms=100)


def _offset_commit(version: int) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    topic = m.OffsetCommitRequest.OffsetCommitRequestTopic(name=PER_TOPIC, partitions=[partition])
    return m.OffsetCommitRequest(group_id="g", topics=[topic])


def _offset_fetch(version: int) -> m.OffsetFetchRequest:
    if version >= 8:
        wanted = m.OffsetFetchRequest.OffsetFetchRequestTopics(
            name=PER_TOPIC, partition_indexes=[0]
        )
        group = m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[wanted])
        return m.OffsetFetchRequest(groups=[group])
    topic = m.OffsetFetchRequest.OffsetFetchRequestTopic(name=PER_TOPIC, partition_indexes=[0])
    return m.OffsetFetchRequest(group_id="g", topics=[topic])


def _find(version: int) -> m.FindCoordinatorRequest:
    if version >= 4:
        return m.FindCoordinatorRequest(coordinator_keys=["g"])
    return m.FindCoordinatorRequest(key="g")


def _alter(version: int) -> m.AlterConfigsRequest:
    resource = m.AlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=PER_TOPIC, configs=[]
    )
    return m.AlterConfigsRequest(resources=[resource])


def _increment(version: int) -> m.IncrementalAlterConfigsRequest:
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=PER_TOPIC, configs=[]
    )
    return m.IncrementalAlterConfigsRequest(resources=[resource])


def _join(version: int) -> m.JoinGroupRequest:
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id=f"joined-{version}",
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


def _leave(version: int) -> m.LeaveGroupRequest:
    if version >= 3:
        member = m.LeaveGroupRequest.MemberIdentity(member_id="nobody")
        return m.LeaveGroupRequest(group_id="g", members=[member])
    return m.LeaveGroupRequest(group_id="g", member_id="nobody")


def _describe_groups(version: int) -> m.DescribeGroupsRequest:
    return m.DescribeGroupsRequest(groups=["g"])


def _api_versions(version: int) -> m.ApiVersionsRequest:
    if version >= 3:
        return m.ApiVersionsRequest(client_software_name="t", client_software_version="1")
    return m.ApiVersionsRequest()


def _add_partitions(version: int) -> m.AddPartitionsToTxnRequest:
    topic = m.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=PER_TOPIC, partitions=[0])
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_topics=[topic]
    )


def _txn_offset_commit(version: int) -> m.TxnOffsetCommitRequest:
    partition = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(committed_metadata=None)
    topic = m.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
        name=PER_TOPIC, partitions=[partition]
    )
    return m.TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=900, topics=[topic]
    )


def _markers(version: int) -> m.WriteTxnMarkersRequest:
    request = m.WriteTxnMarkersRequest
    topic = request.WritableTxnMarkerTopic(name=PER_TOPIC, partition_indexes=[0])
    return request(markers=[request.WritableTxnMarker(producer_id=901, topics=[topic])])


def _describe_producers(version: int) -> m.DescribeProducersRequest:
    topic = m.DescribeProducersRequest.TopicRequest(name=PER_TOPIC, partition_indexes=[0])
    return m.DescribeProducersRequest(topics=[topic])


REQUESTS: dict[str, Callable[[int], Any]] = {
    "AddOffsetsToTxn": lambda _: m.AddOffsetsToTxnRequest(transactional_id="tx", group_id="g"),
    "AddPartitionsToTxn": _add_partitions,
    "AlterConfigs": _alter,
    "AlterPartition": lambda _: m.AlterPartitionRequest(broker_id=0, broker_epoch=-1),
    "AlterPartitionReassignments": lambda _: m.AlterPartitionReassignmentsRequest(),
    "AlterReplicaLogDirs": lambda _: m.AlterReplicaLogDirsRequest(),
    "ApiVersions": _api_versions,
    "AlterUserScramCredentials": lambda _: m.AlterUserScramCredentialsRequest(),
    "CreateAcls": lambda _: m.CreateAclsRequest(),
    "CreateDelegationToken": lambda _: m.CreateDelegationTokenRequest(),
    "RenewDelegationToken": lambda _: m.RenewDelegationTokenRequest(hmac=b"x"),
    "ExpireDelegationToken": lambda _: m.ExpireDelegationTokenRequest(hmac=b"x"),
    "DescribeDelegationToken": lambda _: m.DescribeDelegationTokenRequest(owners=None),
    "DescribeUserScramCredentials": lambda _: m.DescribeUserScramCredentialsRequest(users=None),
    "CreatePartitions": _expand,
    "CreateTopics": _create,
    "DescribeStrayLogs": lambda _: m.DescribeStrayLogsRequest(),
    "BrokerView": lambda _: m.BrokerViewRequest(),
    "ControllerView": lambda _: m.ControllerViewRequest(),
    "BeginResize": lambda _: m.BeginResizeRequest(topic="none", partitions=2),
    "DescribeResize": lambda _: m.DescribeResizeRequest(),
    "FenceResize": lambda _: m.FenceResizeRequest(topic="none"),
    "FinishResize": lambda _: m.FinishResizeRequest(topic="none"),
    "AbortResize": lambda _: m.AbortResizeRequest(topic="none"),
    "ResizeOrder": lambda _: m.ResizeOrderRequest(topic="none"),
    "DescribeDeletedTopics": lambda _: m.DescribeDeletedTopicsRequest(),
    "UndeleteTopics": lambda _: m.UndeleteTopicsRequest(),
    "PurgeDeletedTopics": lambda _: m.PurgeDeletedTopicsRequest(),
    "RenameTopics": lambda _: m.RenameTopicsRequest(
        topics=[m.RenameTopicsRequest.TopicRename(name="missing", new_name="found")]
    ),
    "CarryOffsets": lambda _: m.CarryOffsetsRequest(from_topic="a", to_topic="b", stage=2),
    "DeleteAcls": lambda _: m.DeleteAclsRequest(),
    "DeleteGroups": lambda _: m.DeleteGroupsRequest(groups_names=["none"]),
    "DeleteRecords": _delete_records,
    "DeleteTopics": _delete,
    "DescribeAcls": lambda _: m.DescribeAclsRequest(
        resource_type_filter=1, operation=1, permission_type=1
    ),
    "DescribeClientQuotas": lambda _: m.DescribeClientQuotasRequest(),
    "AlterClientQuotas": lambda _: m.AlterClientQuotasRequest(),
    "DescribeCluster": lambda _: m.DescribeClusterRequest(),
    "DescribeConfigs": _describe_configs,
    "DescribeGroups": _describe_groups,
    "DescribeProducers": _describe_producers,
    "DescribeTransactions": lambda _: m.DescribeTransactionsRequest(transactional_ids=["tx"]),
    "DescribeLogDirs": lambda _: m.DescribeLogDirsRequest(topics=None),
    "ElectLeaders": lambda _: m.ElectLeadersRequest(topic_partitions=None, timeout_ms=1000),
    "EndTxn": lambda _: m.EndTxnRequest(transactional_id="tx"),
    "FindCoordinator": _find,
    "Heartbeat": lambda _: m.HeartbeatRequest(group_id="g", member_id="nobody"),
    "IncrementalAlterConfigs": _increment,
    "InitProducerId": lambda _: m.InitProducerIdRequest(transactional_id=None),
    "JoinGroup": _join,
    "LeaveGroup": _leave,
    "ListGroups": lambda _: m.ListGroupsRequest(),
    "ListPartitionReassignments": lambda _: m.ListPartitionReassignmentsRequest(topics=None),
    "ListOffsets": lambda version: _list_offsets(version, -1),
    "ListTransactions": lambda _: m.ListTransactionsRequest(),
    "Metadata": _metadata,
    "OffsetCommit": _offset_commit,
    "OffsetDelete": lambda _: m.OffsetDeleteRequest(group_id="none"),
    "OffsetFetch": _offset_fetch,
    "OffsetForLeaderEpoch": _epochs,
    "Produce": _produce,
    "SaslAuthenticate": lambda _: m.SaslAuthenticateRequest(),
    "SaslHandshake": lambda _: m.SaslHandshakeRequest(mechanism="PLAIN"),
    "SyncGroup": lambda _: m.SyncGroupRequest(group_id="g", member_id="nobody"),
    "TxnOffsetCommit": _txn_offset_commit,
    "WriteTxnMarkers": _markers,
}


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """One broker with one topic and the group coordinator ready."""
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    try:
        node = await cluster.start(
            0, offsets_topic_replication_factor="1", offsets_topic_num_partitions="1"
        )
        connection = await _open(cluster)
        topic = m.CreateTopicsRequest.CreatableTopic(
            name=PER_TOPIC, num_partitions=1, replication_factor=1
        )
        await connection.send(m.CreateTopicsRequest(topics=[topic], timeout_ms=5000), 5)
        await connection.send(m.FindCoordinatorRequest(key="g"), 1)
        await cluster.until_all_know("__consumer_offsets", 1, 1)
        connection.close()
        assert node.controller.is_active
        yield cluster
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()


async def _open(cluster: LocalCluster) -> Connection:
    return await Connection.open(
        system_runtime().network, "127.0.0.1", cluster.nodes[0].port, client_id="versions"
    )


def _codes(value: Any) -> set[int]:
    """All error codes anywhere in a response."""
    found: set[int] = set()
    if isinstance(value, list):
        for item in value:
            found |= _codes(item)
    for name in getattr(value, "FIELDS", ()):
        field = getattr(value, name)
        if name == "error_code":
            found.add(field)
        else:
            found |= _codes(field)
    return found


async def test_every_version_of_every_api_is_answered(alone: LocalCluster) -> None:
    everything = [
        (route, version)
        for route in ROUTES
        if route.name not in BETWEEN_BROKERS
        for version in range(route.min_version, route.max_version + 1)
    ]
    assert await _problems(alone, everything) == []


async def _problems(cluster: LocalCluster, calls: list[tuple[Route, int]]) -> list[str]:
    topic_id = cluster.nodes[0].services.metadata_cache.topic_id(PER_TOPIC)
    found = []
    for route, version in calls:
        problem = await _try(cluster, route, version, topic_id)
        if problem is not None:
            found.append(f"{route.name} v{version}: {problem}")
    return found


async def _try(cluster: LocalCluster, route: Route, version: int, topic_id: bytes) -> str | None:
    if route.name == "Fetch":
        request: Any = _fetch(version, topic_id)
    else:
        request = REQUESTS[route.name](version)
    connection = await _open(cluster)
    try:
        answer = await connection.send(request, version, timeout_ms=5000)
    except (OSError, TimeoutError) as error:
        return repr(error)
    finally:
        connection.close()
    if ErrorCode.UNKNOWN_SERVER_ERROR in _codes(answer):
        return f"code -1 in {answer}"
    return None
