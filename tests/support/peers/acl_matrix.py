"""Who may do what: one set of ACLs, five users, and a list of requests to try as each of them.

The same calls go to Apache Kafka and to Ottla; `outcome` keeps what must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.metadata.acl_znodes import Operation as Op
from ottla.metadata.acl_znodes import PatternType, Permission
from ottla.metadata.acl_znodes import ResourceType as Type
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.wire.records import Record, build_batch

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = ("admin", "alice", "carol", "dave", "erin")
# Nobody has a right on "closed"; "missing" and "pre-missing" do not exist.
TOPICS = ("readable", "writable", "pre-open", "pre-denied", "public", "closed")
ASKED = (*TOPICS, "missing", "pre-missing")
GROUPS = ("g-read", "g-describe", "g-none")

ALLOW, DENY = Permission.ALLOW, Permission.DENY
ACLS: tuple[tuple[str, Permission, Op, Type, str, PatternType, str], ...] = (
    ("User:alice", ALLOW, Op.READ, Type.TOPIC, "readable", PatternType.LITERAL, "*"),
    ("User:alice", DENY, Op.READ, Type.TOPIC, "writable", PatternType.LITERAL, "*"),
    ("User:alice", ALLOW, Op.WRITE, Type.TOPIC, "writable", PatternType.LITERAL, "127.0.0.1"),
    ("User:alice", ALLOW, Op.ALL, Type.TOPIC, "pre", PatternType.PREFIXED, "*"),
    ("User:alice", DENY, Op.ALL, Type.TOPIC, "pre-denied", PatternType.LITERAL, "*"),
    ("User:*", ALLOW, Op.DESCRIBE, Type.TOPIC, "public", PatternType.LITERAL, "*"),
    ("User:carol", ALLOW, Op.ALL, Type.TOPIC, "closed", PatternType.LITERAL, "10.0.0.1"),
    ("User:alice", ALLOW, Op.READ, Type.GROUP, "g-read", PatternType.LITERAL, "*"),
    ("User:alice", ALLOW, Op.DESCRIBE, Type.GROUP, "g-describe", PatternType.LITERAL, "*"),
    ("User:dave", ALLOW, Op.DESCRIBE, Type.CLUSTER, "kafka-cluster", PatternType.LITERAL, "*"),
    ("User:dave", ALLOW, Op.ALTER_CONFIGS, Type.CLUSTER, "kafka-cluster", PatternType.LITERAL, "*"),
    ("User:erin", ALLOW, Op.ALTER, Type.CLUSTER, "kafka-cluster", PatternType.LITERAL, "*"),
    ("User:erin", ALLOW, Op.CREATE, Type.CLUSTER, "kafka-cluster", PatternType.LITERAL, "*"),
    ("User:erin", ALLOW, Op.DESCRIBE, Type.TOPIC, "*", PatternType.LITERAL, "*"),
    ("User:erin", ALLOW, Op.DELETE, Type.GROUP, "g", PatternType.PREFIXED, "*"),
    ("User:erin", ALLOW, Op.IDEMPOTENT_WRITE, Type.CLUSTER, "kafka-cluster", PatternType.LITERAL,
     "*"),
)  # fmt: skip


def password(user: str) -> str:
    return f"{user}-secret"


def broker_settings(internal_port: int, clients_port: int) -> dict[str, str]:
    """Kafka's own properties: brokers in the clear, clients with SASL, the authoriser on."""
    users = " ".join(f'user_{user}="{password(user)}"' for user in USERS)
    both = f"INTERNAL://127.0.0.1:{internal_port},CLIENTS://127.0.0.1:{clients_port}"
    return {
        "listeners": both,
        "advertised.listeners": both,
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f"{MODULE} required {users};",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        "offsets.topic.num.partitions": "1",
    }


def creations() -> m.CreateAclsRequest:
    return m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest.AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for principal, permission, operation, kind, name, pattern, host in ACLS
        ]
    )


def new_topics() -> m.CreateTopicsRequest:
    return m.CreateTopicsRequest(topics=_creatable(TOPICS), timeout_ms=10_000)


def _creatable(names: tuple[str, ...]) -> list[m.CreateTopicsRequest.CreatableTopic]:
    topic = m.CreateTopicsRequest.CreatableTopic
    return [topic(name=name, num_partitions=1, replication_factor=1) for name in names]


Call = tuple[str, Message, int]


def calls(user: str) -> Iterator[Call]:
    yield from _topic_calls()
    yield from _admin_calls(user)
    yield from _config_calls()
    for group in GROUPS:
        yield from _group_calls(group)
    yield from _cluster_calls(user)
    yield from _acl_calls()


def _topic_calls() -> Iterator[Call]:
    topic = m.MetadataRequest.MetadataRequestTopic
    yield (
        "Metadata",
        m.MetadataRequest(
            topics=[topic(name=name) for name in ASKED],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        9,
    )
    yield "Metadata of all", m.MetadataRequest(topics=None), 9
    yield "Produce", _produce(), 8
    yield "Fetch", _fetch(-1), 11
    list_offsets = m.ListOffsetsRequest
    yield (
        "ListOffsets",
        list_offsets(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=name, partitions=[list_offsets.ListOffsetsPartition(timestamp=-2)]
                )
                for name in ASKED
            ],
        ),
        5,
    )
    epochs = m.OffsetForLeaderEpochRequest
    yield (
        "OffsetForLeaderEpoch",
        epochs(
            topics=[
                epochs.OffsetForLeaderTopic(
                    topic=name, partitions=[epochs.OffsetForLeaderPartition(leader_epoch=0)]
                )
                for name in ASKED
            ]
        ),
        3,
    )


def _produce() -> m.ProduceRequest:
    batch = build_batch([Record(None, b"value")])
    request = m.ProduceRequest
    return request(
        acks=1,
        timeout_ms=5000,
        topic_data=[
            request.TopicProduceData(
                name=name, partition_data=[request.PartitionProduceData(index=0, records=batch)]
            )
            for name in ASKED
        ],
    )


def _fetch(replica_id: int) -> m.FetchRequest:
    request = m.FetchRequest
    partition = request.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return request(
        replica_id=replica_id,
        max_wait_ms=10,
        min_bytes=0,
        topics=[request.FetchTopic(topic=name, partitions=[partition]) for name in ASKED],
    )


def _admin_calls(user: str) -> Iterator[Call]:
    names = (*ASKED, "pre-new", "new")
    yield (
        "CreateTopics",
        m.CreateTopicsRequest(topics=_creatable(names), timeout_ms=0, validate_only=True),
        5,
    )
    expand = m.CreatePartitionsRequest
    yield (
        "CreatePartitions",
        expand(
            topics=[expand.CreatePartitionsTopic(name=n, count=2, assignments=None) for n in ASKED],
            timeout_ms=0,
            validate_only=True,
        ),
        1,
    )
    delete = m.DeleteRecordsRequest
    yield (
        "DeleteRecords",
        delete(
            topics=[
                delete.DeleteRecordsTopic(
                    name=name, partitions=[delete.DeleteRecordsPartition(offset=0)]
                )
                for name in ASKED
            ],
            timeout_ms=5000,
        ),
        1,
    )
    if user != "admin":
        # Nothing that this user may delete is among them.
        safe = ["readable", "writable", "public", "closed", "missing", "pre-missing"]
        yield "DeleteTopics", m.DeleteTopicsRequest(topic_names=safe, timeout_ms=0), 4


def _config_calls() -> Iterator[Call]:
    topic, broker = 2, 4
    resources = [(topic, name) for name in ASKED] + [(broker, "0")]
    describe = m.DescribeConfigsRequest
    yield (
        "DescribeConfigs",
        describe(
            resources=[
                describe.DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=["retention.ms"]
                )
                for kind, name in resources
            ]
        ),
        2,
    )
    alter = m.AlterConfigsRequest
    config = alter.AlterableConfig(name="retention.ms", value="1000")
    yield (
        "AlterConfigs",
        alter(
            resources=[
                alter.AlterConfigsResource(resource_type=topic, resource_name=n, configs=[config])
                for n in ASKED
            ],
            validate_only=True,
        ),
        1,
    )
    change = m.IncrementalAlterConfigsRequest
    changed = change.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    yield (
        "IncrementalAlterConfigs",
        change(
            resources=[
                change.AlterConfigsResource(resource_type=topic, resource_name=n, configs=[changed])
                for n in ASKED
            ],
            validate_only=True,
        ),
        0,
    )


def _group_calls(group: str) -> Iterator[Call]:
    commit = m.OffsetCommitRequest
    yield (
        "OffsetCommit",
        commit(
            group_id=group,
            topics=[
                commit.OffsetCommitRequestTopic(
                    name=name, partitions=[commit.OffsetCommitRequestPartition(committed_offset=3)]
                )
                for name in ASKED
            ],
        ),
        6,
    )
    fetch = m.OffsetFetchRequest
    wanted = [fetch.OffsetFetchRequestTopic(name=n, partition_indexes=[0]) for n in ASKED]
    yield "OffsetFetch", fetch(group_id=group, topics=wanted), 5
    yield "OffsetFetch of all", fetch(group_id=group, topics=None), 5
    yield "FindCoordinator", m.FindCoordinatorRequest(key=group, key_type=0), 2
    yield (
        "JoinGroup",
        m.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        5,
    )
    yield "SyncGroup", m.SyncGroupRequest(group_id=group, generation_id=1, member_id="x"), 3
    yield "Heartbeat", m.HeartbeatRequest(group_id=group, generation_id=1, member_id="x"), 3
    member = m.LeaveGroupRequest.MemberIdentity(member_id="x")
    yield "LeaveGroup", m.LeaveGroupRequest(group_id=group, members=[member]), 4
    yield (
        "DescribeGroups",
        m.DescribeGroupsRequest(groups=[group], include_authorized_operations=True),
        4,
    )
    delete = m.OffsetDeleteRequest
    yield (
        "OffsetDelete",
        delete(
            group_id=group,
            topics=[
                delete.OffsetDeleteRequestTopic(
                    name=name, partitions=[delete.OffsetDeleteRequestPartition(partition_index=0)]
                )
                for name in ("closed", "missing")
            ],
        ),
        0,
    )
    yield "ListGroups", m.ListGroupsRequest(), 3
    yield "DeleteGroups", m.DeleteGroupsRequest(groups_names=[f"{group}-unused"]), 1


def _cluster_calls(user: str) -> Iterator[Call]:
    alone = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    yield "InitProducerId", alone, 1
    cluster = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    yield "DescribeCluster", cluster, 0
    move = m.AlterPartitionReassignmentsRequest
    partition = move.ReassignablePartition(partition_index=0, replicas=[0])
    yield (
        "AlterPartitionReassignments",
        move(topics=[move.ReassignableTopic(name="missing", partitions=[partition])]),
        0,
    )
    yield "ListPartitionReassignments", m.ListPartitionReassignmentsRequest(topics=None), 0
    elect = m.ElectLeadersRequest
    yield (
        "ElectLeaders",
        elect(topic_partitions=[elect.TopicPartitions(topic="closed", partitions=[0])]),
        1,
    )
    dirs = m.AlterReplicaLogDirsRequest
    topic = dirs.AlterReplicaLogDirTopic(name="closed", partitions=[0])
    entry = dirs.AlterReplicaLogDir(path="/not/there", topics=[topic])
    yield "AlterReplicaLogDirs", dirs(dirs=[entry]), 1
    if user == "admin":
        return
    # What brokers send: the right answer is always the same refusal.
    yield "Fetch as a replica", _fetch(7), 11
    transactional = m.InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=1000)
    yield "InitProducerId of a transaction", transactional, 1
    yield "FindCoordinator of a transaction", m.FindCoordinatorRequest(key="tx", key_type=1), 2
    yield "ControlledShutdown", m.ControlledShutdownRequest(broker_id=9, broker_epoch=1), 3
    yield "UpdateMetadata", m.UpdateMetadataRequest(controller_id=9, controller_epoch=1), 6
    yield "StopReplica", m.StopReplicaRequest(controller_id=9, controller_epoch=1), 3
    yield "LeaderAndIsr", _leader_and_isr(), 4
    yield "AlterPartition", m.AlterPartitionRequest(broker_id=9, broker_epoch=1), 0


def _leader_and_isr() -> m.LeaderAndIsrRequest:
    request = m.LeaderAndIsrRequest
    partition = request.LeaderAndIsrPartitionState(topic_name="closed", partition_index=0)
    return request(
        controller_id=9,
        controller_epoch=1,
        topic_states=[
            request.LeaderAndIsrTopicState(topic_name="closed", partition_states=[partition])
        ],
    )


def _acl_calls() -> Iterator[Call]:
    def describe(kind: Type, name: str | None, pattern: PatternType) -> m.DescribeAclsRequest:
        return m.DescribeAclsRequest(
            resource_type_filter=kind,
            resource_name_filter=name,
            pattern_type_filter=pattern,
            principal_filter=None,
            host_filter=None,
            operation=Op.ANY,
            permission_type=Permission.ANY,
        )

    yield "DescribeAcls", describe(Type.ANY, None, PatternType.ANY), 2
    yield "DescribeAcls of a name", describe(Type.TOPIC, "pre-denied", PatternType.ANY), 2
    yield "DescribeAcls that match", describe(Type.TOPIC, "pre-denied", PatternType.MATCH), 2
    yield "DescribeAcls v0", describe(Type.TOPIC, "readable", PatternType.LITERAL), 0

    def create(kind: Type, name: str, principal: str) -> m.CreateAclsRequest.AclCreation:
        return m.CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal=principal,
            host="*",
            operation=Op.READ,
            permission_type=ALLOW,
        )

    yield (
        "CreateAcls that cannot be",
        m.CreateAclsRequest(
            creations=[
                create(Type.CLUSTER, "another", "User:x"),
                create(Type.TOPIC, "", "User:x"),
                create(Type.TOPIC, "nobody", "without-type"),
            ]
        ),
        2,
    )
    delete = m.DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=Type.TOPIC,
        resource_name_filter="no-such",
        pattern_type_filter=PatternType.LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=Op.ANY,
        permission_type=Permission.ANY,
    )
    yield "DeleteAcls", m.DeleteAclsRequest(filters=[delete]), 2


# Fields that say what was decided; offsets, ids, sizes and timings are left out.
_KEPT = frozenset(
    {
        "error_code", "error_message", "topic_config_error_code", "name", "topic", "topic_name",
        "index", "partition", "partition_index", "group_id", "resource_type", "resource_name",
        "pattern_type", "principal", "host", "operation", "permission_type", "is_internal",
        "topic_authorized_operations", "cluster_authorized_operations", "authorized_operations",
        "num_partitions", "replication_factor", "group_state",
    }
)  # fmt: skip


def _says_little(message: str | None) -> bool:
    """Null and empty mean the same; Kafka 2.8 prints the inside of a request that it refuses."""
    return not message or message == "NONE" or message.startswith("Request ")


def outcome(response: Any) -> Any:
    """The decisions in a response; lists are sets, the servers order them as they like."""
    if isinstance(response, list):
        return sorted((outcome(item) for item in response), key=repr)
    fields = getattr(response, "FIELDS", None)
    if fields is None:
        return response
    kept = {}
    for name in fields:
        value = getattr(response, name)
        if name in ("brokers", "configs") or (name == "error_message" and _says_little(value)):
            continue
        if isinstance(value, list) and value and hasattr(value[0], "FIELDS"):
            kept[name] = outcome(value)
        elif name in _KEPT and not (name == "host" and hasattr(response, "port")):
            kept[name] = value
    return kept
