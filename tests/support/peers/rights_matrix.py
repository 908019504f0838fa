"""Who may do what, as a table: everyone has one right only, and tries every request.

Apache Kafka and Ottla get the same requests in the same order; what is kept of an answer is the
decision: the codes of refusals, what a list shows, or that the request was let through.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.errors import ErrorCode
from ottla.metadata.acl_znodes import Operation as Op
from ottla.metadata.acl_znodes import PatternType, Permission
from ottla.metadata.acl_znodes import ResourceType as Type
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.wire.records import Record, build_batch

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
ADMIN = "admin"
# "t" is there, "gone" is not; the same rights are on both.
TOPIC, MISSING, GROUP, TRANSACTION = "t", "gone", "g", "x"
_NAMES = {
    Type.TOPIC: (TOPIC, MISSING),
    Type.GROUP: (GROUP,),
    Type.CLUSTER: ("kafka-cluster",),
    Type.TRANSACTIONAL_ID: (TRANSACTION,),
}
_RIGHTS = {
    Type.TOPIC: (
        *(Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE),
        *(Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    ),
    Type.GROUP: (Op.READ, Op.DESCRIBE, Op.DELETE),
    Type.CLUSTER: (
        *(Op.CREATE, Op.ALTER, Op.DESCRIBE, Op.CLUSTER_ACTION, Op.DESCRIBE_CONFIGS),
        *(Op.ALTER_CONFIGS, Op.IDEMPOTENT_WRITE),
    ),
    Type.TRANSACTIONAL_ID: (Op.WRITE, Op.DESCRIBE),
}


def _user(kind: Type, right: Op) -> str:
    return f"{kind.name}_{right.name}".replace("_", "").lower()


# Each principal's one right: its resource type and operation.
PRINCIPALS: dict[str, tuple[Type, Op] | None] = {"nobody": None} | {
    _user(kind, right): (kind, right) for kind, rights in _RIGHTS.items() for right in rights
}


def password(user: str) -> str:
    return f"{user}-secret"


def broker_settings(open_port: int, port: int) -> dict[str, str]:
    """Kafka's own properties: SASL for clients and between brokers, the authoriser on.

    Clients share the brokers' listener: on others Ottla takes no requests of brokers at all. The
    open one tells that the broker is ready.
    """
    users = " ".join(f'user_{user}="{password(user)}"' for user in (ADMIN, *PRINCIPALS))
    own = f'username="{ADMIN}" password="{password(ADMIN)}"'
    both = f"OPEN://127.0.0.1:{open_port},SECURED://127.0.0.1:{port}"
    return {
        "listeners": both,
        "advertised.listeners": both,
        "listener.security.protocol.map": "OPEN:PLAINTEXT,SECURED:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SECURED",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": f"{MODULE} required {own} {users};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": f"User:{ADMIN}",
        "allow.everyone.if.no.acl.found": "false",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }


def new_topics() -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(topics=[_creatable(TOPIC)], timeout_ms=10_000)


def creations() -> m.CreateAclsRequest:
    return m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest.AclCreation(
                resource_type=right[0],
                resource_name=name,
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=right[1],
                permission_type=Permission.ALLOW,
            )
            for user, right in PRINCIPALS.items()
            if right is not None
            for name in _NAMES[right[0]]
        ]
    )


def _creatable(name: str) -> m.CreateTopicsRequest.CreatableTopic:
    return m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)


Call = tuple[str, Message, int]


def calls() -> Iterator[Call]:
    """Nothing here leaves anything behind that the next principal could see."""
    yield from _record_calls()
    yield from _topic_calls()
    yield from _group_calls()
    yield from _transaction_calls()
    yield from _config_calls()
    yield from _cluster_calls()
    yield from _broker_calls()


def _record_calls() -> Iterator[Call]:
    for name in (TOPIC, MISSING):
        yield f"Produce to {name}", _produce(name), 8
        yield f"Fetch from {name}", _fetch(name, -1), 11
        yield f"Fetch from {name} as a replica", _fetch(name, 7), 11
        offsets = m.ListOffsetsRequest
        partition = offsets.ListOffsetsPartition(timestamp=-2)
        of_topic = offsets.ListOffsetsTopic(name=name, partitions=[partition])
        yield f"ListOffsets of {name}", offsets(replica_id=-1, topics=[of_topic]), 5
        epochs = m.OffsetForLeaderEpochRequest
        of_epoch = epochs.OffsetForLeaderTopic(
            topic=name, partitions=[epochs.OffsetForLeaderPartition(leader_epoch=0)]
        )
        yield f"OffsetForLeaderEpoch of {name}", epochs(topics=[of_epoch]), 3
        delete = m.DeleteRecordsRequest
        of_records = delete.DeleteRecordsTopic(
            name=name, partitions=[delete.DeleteRecordsPartition(offset=0)]
        )
        yield f"DeleteRecords of {name}", delete(topics=[of_records], timeout_ms=5000), 1
        producers = m.DescribeProducersRequest
        of_producers = producers.TopicRequest(name=name, partition_indexes=[0])
        yield f"DescribeProducers of {name}", producers(topics=[of_producers]), 0


def _produce(name: str) -> m.ProduceRequest:
    batch = build_batch([Record(None, b"value", 0)])
    data = m.ProduceRequest.PartitionProduceData(index=0, records=batch)
    topic = m.ProduceRequest.TopicProduceData(name=name, partition_data=[data])
    return m.ProduceRequest(acks=1, timeout_ms=5000, topic_data=[topic])


def _fetch(name: str, replica_id: int) -> m.FetchRequest:
    request = m.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = request.FetchTopic(topic=name, partitions=[partition])
    return request(replica_id=replica_id, max_wait_ms=0, min_bytes=0, topics=[topic])


def _topic_calls() -> Iterator[Call]:
    topic = m.MetadataRequest.MetadataRequestTopic
    for name in (TOPIC, MISSING):
        asked = m.MetadataRequest(topics=[topic(name=name)], allow_auto_topic_creation=False)
        yield f"Metadata of {name}", asked, 9
        create = m.CreateTopicsRequest(topics=[_creatable(name)], timeout_ms=0, validate_only=True)
        yield f"CreateTopics {name}", create, 5
        expand = m.CreatePartitionsRequest
        more = expand.CreatePartitionsTopic(name=name, count=2, assignments=None)
        yield (
            f"CreatePartitions of {name}",
            expand(topics=[more], timeout_ms=0, validate_only=True),
            1,
        )
    yield "Metadata of all", m.MetadataRequest(topics=None), 9
    yield f"DeleteTopics {MISSING}", m.DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=0), 4


def _group_calls() -> Iterator[Call]:
    commit = m.OffsetCommitRequest
    at = commit.OffsetCommitRequestPartition(committed_offset=0)
    of_commit = commit.OffsetCommitRequestTopic(name=TOPIC, partitions=[at])
    yield "OffsetCommit", commit(group_id=GROUP, topics=[of_commit]), 6
    fetch = m.OffsetFetchRequest
    of_fetch = fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    yield "OffsetFetch", fetch(group_id=GROUP, topics=[of_fetch]), 5
    yield "OffsetFetch of all", fetch(group_id=GROUP, topics=None), 5
    yield "FindCoordinator of a group", m.FindCoordinatorRequest(key=GROUP, key_type=0), 2
    # With a session that is refused: nobody becomes a member.
    protocol = m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")
    join = m.JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocol_type="consumer",
        protocols=[protocol],
    )
    yield "JoinGroup", join, 5
    yield "SyncGroup", m.SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="y"), 3
    yield "Heartbeat", m.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="y"), 3
    member = m.LeaveGroupRequest.MemberIdentity(member_id="y")
    yield "LeaveGroup", m.LeaveGroupRequest(group_id=GROUP, members=[member]), 4
    yield "DescribeGroups", m.DescribeGroupsRequest(groups=[GROUP]), 4
    yield "ListGroups", m.ListGroupsRequest(), 3
    delete = m.OffsetDeleteRequest
    of_delete = delete.OffsetDeleteRequestTopic(
        name=TOPIC, partitions=[delete.OffsetDeleteRequestPartition(partition_index=7)]
    )
    yield "OffsetDelete", delete(group_id=GROUP, topics=[of_delete]), 0


def _transaction_calls() -> Iterator[Call]:
    alone = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    yield "InitProducerId", alone, 1
    # A time-out that is refused: no transaction begins.
    yield (
        "InitProducerId of a transaction",
        m.InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=-5),
        1,
    )
    find = m.FindCoordinatorRequest(key=TRANSACTION, key_type=1)
    yield "FindCoordinator of a transaction", find, 2
    who = {"producer_id": 99, "producer_epoch": 0}
    add = m.AddPartitionsToTxnRequest
    topic = add.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    yield (
        "AddPartitionsToTxn",
        add(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=99,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[topic],
        ),
        1,
    )
    offsets = m.AddOffsetsToTxnRequest(transactional_id=TRANSACTION, group_id=GROUP, **who)
    yield "AddOffsetsToTxn", offsets, 1
    yield "EndTxn", m.EndTxnRequest(transactional_id=TRANSACTION, committed=True, **who), 1
    commit = m.TxnOffsetCommitRequest
    at = commit.TxnOffsetCommitRequestPartition(partition_index=7)
    of_topic = commit.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[at])
    yield (
        "TxnOffsetCommit",
        commit(transactional_id=TRANSACTION, group_id=GROUP, topics=[of_topic], **who),
        2,
    )


def _config_calls() -> Iterator[Call]:
    for kind, name, key in ((2, TOPIC, "retention.ms"), (4, "0", "log.cleaner.threads")):
        of = "a topic" if kind == 2 else "a broker"
        describe = m.DescribeConfigsRequest
        asked = describe.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=[key]
        )
        yield f"DescribeConfigs of {of}", describe(resources=[asked]), 2
        alter = m.AlterConfigsRequest
        altered = alter.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[alter.AlterableConfig(name=key, value="2")],
        )
        yield f"AlterConfigs of {of}", alter(resources=[altered], validate_only=True), 1
        change = m.IncrementalAlterConfigsRequest
        changed = change.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[change.AlterableConfig(name=key, config_operation=0, value="2")],
        )
        yield (
            f"IncrementalAlterConfigs of {of}",
            change(resources=[changed], validate_only=True),
            0,
        )
    component = m.DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=2)
    yield "DescribeClientQuotas", m.DescribeClientQuotasRequest(components=[component]), 0
    quotas = m.AlterClientQuotasRequest
    entry = quotas.EntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name="somebody")],
        ops=[quotas.OpData(key="producer_byte_rate", value=1000.0)],
    )
    yield "AlterClientQuotas", quotas(entries=[entry], validate_only=True), 0


def _cluster_calls() -> Iterator[Call]:
    yield "DescribeCluster", m.DescribeClusterRequest(), 0
    yield "DescribeLogDirs", m.DescribeLogDirsRequest(topics=None), 1
    move = m.AlterPartitionReassignmentsRequest
    partition = move.ReassignablePartition(partition_index=0, replicas=[0])
    of_move = move.ReassignableTopic(name=MISSING, partitions=[partition])
    yield "AlterPartitionReassignments", move(topics=[of_move]), 0
    yield "ListPartitionReassignments", m.ListPartitionReassignmentsRequest(topics=None), 0
    elect = m.ElectLeadersRequest
    of_elect = elect.TopicPartitions(topic=TOPIC, partitions=[0])
    yield "ElectLeaders", elect(topic_partitions=[of_elect]), 1
    dirs = m.AlterReplicaLogDirsRequest
    of_dir = dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
    entry = dirs.AlterReplicaLogDir(path="/not/there", topics=[of_dir])
    yield "AlterReplicaLogDirs", dirs(dirs=[entry]), 1
    any_acl = {
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": "User:no-such",
        "host_filter": None,
        "operation": Op.ANY,
        "permission_type": Permission.ANY,
    }
    filtered = m.DescribeAclsRequest(
        resource_type_filter=Type.ANY, resource_name_filter=None, **any_acl
    )
    yield "DescribeAcls", filtered, 2
    create = m.CreateAclsRequest.AclCreation(
        resource_type=Type.TOPIC,
        resource_name="",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:y",
        host="*",
        operation=Op.READ,
        permission_type=Permission.ALLOW,
    )
    yield "CreateAcls", m.CreateAclsRequest(creations=[create]), 2
    delete = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=Type.TOPIC, resource_name_filter="no-such", **any_acl
    )
    yield "DeleteAcls", m.DeleteAclsRequest(filters=[delete]), 2
    yield "DescribeUserScramCredentials", m.DescribeUserScramCredentialsRequest(users=None), 0
    scram = m.AlterUserScramCredentialsRequest
    gone = scram.ScramCredentialDeletion(name="no-such", mechanism=1)
    yield "AlterUserScramCredentials", scram(deletions=[gone]), 0


def _broker_calls() -> Iterator[Call]:
    """What brokers send. Whoever may send orders sends them with an epoch of the past."""
    markers = m.WriteTxnMarkersRequest
    topic = markers.WritableTxnMarkerTopic(name=MISSING, partition_indexes=[0])
    marker = markers.WritableTxnMarker(producer_id=99, topics=[topic])
    yield "WriteTxnMarkers", markers(markers=[marker]), 0
    yield "ControlledShutdown", m.ControlledShutdownRequest(broker_id=9, broker_epoch=1), 3
    yield "AlterPartition", m.AlterPartitionRequest(broker_id=9, broker_epoch=1), 0
    yield "UpdateMetadata", m.UpdateMetadataRequest(controller_id=9, controller_epoch=0), 6
    yield "StopReplica", m.StopReplicaRequest(controller_id=9, controller_epoch=0), 3
    yield "LeaderAndIsr", m.LeaderAndIsrRequest(controller_id=9, controller_epoch=0), 4


_REFUSALS = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
# Answers that leave out what may not be seen.
_LISTS = {"Metadata of all": "topics", "ListGroups": "groups", "DescribeLogDirs": "results"}
_LISTS |= {"OffsetFetch of all": "topics"}


def decision(name: str, response: Any) -> str:
    """`refused: CODE` for each code of a refusal, what a list shows, or `let through`."""
    refused = sorted(
        {ErrorCode(code).name for code in _codes(response)} & {r.name for r in _REFUSALS}
    )
    if refused:
        return f"refused: {', '.join(refused)}"
    if name in _LISTS:
        return "shows something" if getattr(response, _LISTS[name]) else "shows nothing"
    return "let through"


def _codes(item: Any) -> Iterator[int]:
    if isinstance(item, list):
        for each in item:
            yield from _codes(each)
        return
    for field in getattr(item, "FIELDS", ()):
        value = getattr(item, field)
        if field.endswith("error_code"):
            yield value
        else:
            yield from _codes(value)
