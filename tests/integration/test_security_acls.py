"""The authoriser on real brokers: ACLs reach every broker, decide, and hide what they must."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ottla.errors import ErrorCode
from ottla.metadata.acl_znodes import AclZnode
from ottla.metadata.store import CreateMode
from ottla.security.acls import (
    AclEntry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.integration.secure_cluster import ADMIN, ALICE, BOB, SecureCluster, running

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecureCluster]:
    async with running(tmp_path, brokers=2) as cluster:
        yield cluster


def _metadata(*names: str, create: bool = False) -> m.MetadataRequest:
    topic = m.MetadataRequest.MetadataRequestTopic
    return m.MetadataRequest(
        topics=[topic(name=name) for name in names], allow_auto_topic_creation=create
    )


async def _codes(
    cluster: SecureCluster,
    user: PlainCredentials,
    *names: str,
    create: bool = False,
    broker_id: int = 0,
) -> dict[str, int]:
    answer = await cluster.ask(user, _metadata(*names, create=create), 9, broker_id)
    return {topic.name: topic.error_code for topic in answer.topics}


async def test_topics_without_describe_cannot_be_told_from_missing_ones(
    cluster: SecureCluster,
) -> None:
    await cluster.create_topic("secret")
    await cluster.create_topic("shown")
    await cluster.add_acl("User:alice", Operation.READ, TOPIC, "shown")
    codes = await _codes(cluster, ALICE, "secret", "no-such", "shown")
    assert codes == {"secret": REFUSED, "no-such": REFUSED, "shown": 0}
    everything = await cluster.ask(ALICE, m.MetadataRequest(topics=None), 9)
    assert [topic.name for topic in everything.topics] == ["shown"]


async def test_topic_ids_do_not_tell_names(cluster: SecureCluster) -> None:
    await cluster.create_topic("secret")
    controller = cluster.controller_id
    cache = cluster.nodes[controller].services.metadata_cache
    topic_id = cache.topic_id("secret")
    asked = m.MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None)
    request = m.MetadataRequest(topics=[asked], allow_auto_topic_creation=False)
    answer = await cluster.ask(ALICE, request, 12)
    assert [(t.error_code, t.name, t.topic_id) for t in answer.topics] == [
        (REFUSED, None, topic_id)
    ]

    states = [
        m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=topic_id),
        m.DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=bytes(range(16))),
        m.DeleteTopicsRequest.DeleteTopicState(name="secret"),
    ]
    request_deletion = m.DeleteTopicsRequest(topics=states, timeout_ms=1000)
    deletion = await cluster.ask(ALICE, request_deletion, 6, controller)
    assert [(t.error_code, t.name, t.topic_id) for t in deletion.responses] == [
        (REFUSED, None, topic_id),
        (ErrorCode.UNKNOWN_TOPIC_ID, None, bytes(range(16))),
        (REFUSED, "secret", bytes(16)),
    ]
    assert cache.contains_topic("secret")


async def test_a_new_acl_counts_for_connections_that_are_open(cluster: SecureCluster) -> None:
    await cluster.create_topic("t")
    connections = [await cluster.connect(ALICE, broker_id) for broker_id in (0, 1)]

    async def codes() -> list[int]:
        answers = [await each.send(_metadata("t"), 9) for each in connections]
        return [answer.topics[0].error_code for answer in answers]

    assert await codes() == [REFUSED, REFUSED]
    await cluster.add_acl("User:alice", Operation.DESCRIBE, TOPIC, "t", broker_id=1)
    assert await codes() == [0, 0]
    await cluster.add_acl(
        "User:*", Operation.DESCRIBE, TOPIC, "t", permission=Permission.DENY, broker_id=0
    )
    assert await codes() == [REFUSED, REFUSED]
    for connection in connections:
        connection.close()


async def test_topics_are_created_for_whoever_may_create(cluster: SecureCluster) -> None:
    controller = cluster.controller_id
    other = 1 - controller
    await cluster.add_acl(
        "User:alice", Operation.DESCRIBE, TOPIC, "a", pattern_type=PatternType.PREFIXED
    )
    for broker_id in (controller, other):
        name = f"a-refused-{broker_id}"
        assert await _codes(cluster, ALICE, name, create=True, broker_id=broker_id) == {
            name: REFUSED
        }
        assert await _codes(cluster, ALICE, name, create=False, broker_id=broker_id) == {
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
    await cluster.add_acl("User:alice", Operation.CREATE, TOPIC, "a-one")
    assert await _codes(cluster, ALICE, "a-one", create=True, broker_id=controller) == {
        "a-one": ErrorCode.LEADER_NOT_AVAILABLE
    }
    await cluster.until_all_know("a-one", 1, 1)
    await cluster.add_acl("User:alice", Operation.CREATE, CLUSTER, "kafka-cluster")
    assert await _codes(cluster, ALICE, "a-two", create=True, broker_id=other) == {
        "a-two": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    }
    await cluster.until_all_know("a-two", 1, 1)
    # Not even whoever may create can see what it may not describe.
    assert await _codes(cluster, ALICE, "b", create=True) == {"b": REFUSED}
    assert not cluster.controller.services.metadata_cache.contains_topic("b")


async def test_whoever_creates_needs_a_right_to_see_the_configs(cluster: SecureCluster) -> None:
    await cluster.add_acl("User:alice", Operation.CREATE, TOPIC, "mine")
    topics = [
        m.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for name in ("mine", "other", "mine2", "mine2")
    ]
    request = m.CreateTopicsRequest(topics=topics, timeout_ms=5000)
    answer = await cluster.ask(ALICE, request, 7, cluster.controller_id)
    seen = {
        topic.name: (
            topic.error_code,
            topic.error_message,
            topic.topic_config_error_code,
            topic.num_partitions,
            topic.configs,
        )
        for topic in answer.topics
    }
    assert seen == {
        "mine": (0, None, REFUSED, -1, []),
        "other": (REFUSED, "Authorization failed.", REFUSED, -1, []),
        "mine2": (42, "Found multiple entries for this topic.", REFUSED, -1, []),
    }
    elsewhere = await cluster.ask(ALICE, request, 7, 1 - cluster.controller_id)
    assert {topic.error_code for topic in elsewhere.topics} == {ErrorCode.NOT_CONTROLLER}


async def test_fetch_by_topic_id(cluster: SecureCluster) -> None:
    await cluster.create_topic("t")
    leader = cluster.nodes[0].services.metadata_cache.topic_partitions("t")[0].leader
    topic_id = cluster.nodes[0].services.metadata_cache.topic_id("t")
    partition = m.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    topic = m.FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])
    request = m.FetchRequest(max_wait_ms=10, min_bytes=0, topics=[topic])

    async def code() -> int:
        answer = await cluster.ask(ALICE, request, 13, leader)
        return int(answer.responses[0].partitions[0].error_code)

    assert await code() == REFUSED
    await cluster.add_acl("User:alice", Operation.READ, TOPIC, "t")
    assert await code() == 0


async def test_acls_written_by_another_hand_are_followed(cluster: SecureCluster) -> None:
    """As kafka-acls --authorizer-properties zookeeper.connect=… does."""
    store = EmbeddedStore(cluster.store.engine)
    await cluster.create_topic("t")
    assert await _codes(cluster, ALICE, "t") == {"t": REFUSED}
    entry = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
    pattern = ResourcePattern(TOPIC, "t")
    await store.create(AclZnode.path(pattern), AclZnode.encode(frozenset({entry})))
    await store.create(
        "/kafka-acl-changes/acl_changes_", b"Topic:t", mode=CreateMode.PERSISTENT_SEQUENTIAL
    )
    authorizers = [node.services.authorizer for node in cluster.nodes.values()]
    await cluster.until(
        lambda: all(a is not None and a.entries(pattern) == {entry} for a in authorizers),
        "the ACL on both brokers",
    )
    assert await _codes(cluster, ALICE, "t") == {"t": 0}
    await store.close()


async def test_two_brokers_write_the_same_pattern_at_once(cluster: SecureCluster) -> None:
    users = [f"User:u{number}" for number in range(12)]
    await asyncio.gather(
        *(
            cluster.add_acl(user, Operation.READ, TOPIC, "t", broker_id=number % 2)
            for number, user in enumerate(users)
        )
    )
    for node in cluster.nodes.values():
        assert node.services.authorizer is not None
        entries = node.services.authorizer.entries(ResourcePattern(TOPIC, "t"))
        assert {entry.principal for entry in entries} == set(users)


async def test_a_restarted_broker_knows_the_acls(cluster: SecureCluster) -> None:
    await cluster.create_topic("t")
    await cluster.add_acl("User:alice", Operation.READ, TOPIC, "t")
    other = 1 - cluster.controller_id
    await cluster.stop(other)
    await cluster.start(other)
    connection = await cluster.connect(ALICE, other)
    answer = await connection.send(_metadata("t"), 9)
    assert answer.topics[0].error_code == 0
    connection.close()


async def test_deleting_acls(cluster: SecureCluster) -> None:
    await cluster.add_acl("User:alice", Operation.READ, TOPIC, "a")
    await cluster.add_acl("User:alice", Operation.WRITE, TOPIC, "a")
    await cluster.add_acl("User:bob", Operation.READ, TOPIC, "a", pattern_type=PatternType.PREFIXED)

    def wanted(operation: Operation) -> m.DeleteAclsRequest.DeleteAclsFilter:
        return m.DeleteAclsRequest.DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter="a",
            pattern_type_filter=PatternType.MATCH,
            principal_filter=None,
            host_filter=None,
            operation=operation,
            permission_type=Permission.ANY,
        )

    # What the first filter takes is not there for the second.
    filters = [wanted(Operation.WRITE), wanted(Operation.ANY), wanted(Operation.DELETE)]
    answer = await cluster.ask(ADMIN, m.DeleteAclsRequest(filters=filters), 3, 1)
    found = [
        sorted((acl.principal, acl.operation, acl.pattern_type) for acl in result.matching_acls)
        for result in answer.filter_results
    ]
    assert found == [
        [("User:alice", Operation.WRITE, PatternType.LITERAL)],
        [
            ("User:alice", Operation.READ, PatternType.LITERAL),
            ("User:bob", Operation.READ, PatternType.PREFIXED),
        ],
        [],
    ]
    authorizer = cluster.nodes[0].services.authorizer
    assert authorizer is not None
    await cluster.until(
        lambda: not authorizer.entries(ResourcePattern(TOPIC, "a")), "no ACL on the other broker"
    )


@pytest.mark.parametrize("change", [{"resource_type": 9}, {"operation": 0}, {"permission_type": 7}])
async def test_unknown_codes_end_the_connection(
    cluster: SecureCluster, change: dict[str, int]
) -> None:
    given = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    creation = m.CreateAclsRequest.AclCreation(
        resource_name="t", principal="User:a", host="*", **(given | change)
    )
    with pytest.raises(ConnectionError):
        await cluster.ask(ADMIN, m.CreateAclsRequest(creations=[creation]), 2)


async def test_what_only_filters_can_say_fails_the_whole_request(cluster: SecureCluster) -> None:
    creations = [
        m.CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name="t",
            resource_pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        for kind in (2, 1)
    ]
    answer = await cluster.ask(ADMIN, m.CreateAclsRequest(creations=creations), 2)
    assert [result.error_code for result in answer.results] == [-1, -1]


async def test_without_an_authoriser_everyone_may_and_acls_are_disabled(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"authorizer.class.name": ""}) as cluster:
        await cluster.create_topic("t")
        assert await _codes(cluster, ALICE, "t") == {"t": 0}
        answer = await cluster.ask(
            ALICE,
            m.DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1),
            2,
        )
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )
        creation = m.CreateAclsRequest.AclCreation(resource_type=2, operation=3, permission_type=3)
        created = await cluster.ask(ALICE, m.CreateAclsRequest(creations=[creation]), 2)
        assert [(r.error_code, r.error_message) for r in created.results] == [
            (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
        ]


async def test_everyone_where_no_acl_is_found(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"allow.everyone.if.no.acl.found": "true"}) as cluster:
        await cluster.create_topic("open")
        await cluster.create_topic("guarded")
        await cluster.add_acl("User:bob", Operation.READ, TOPIC, "guarded")
        assert await _codes(cluster, ALICE, "open", "guarded") == {"open": 0, "guarded": REFUSED}
        assert await _codes(cluster, BOB, "open", "guarded") == {"open": 0, "guarded": 0}


async def test_refusals_are_in_the_audit_log(
    cluster: SecureCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        await _codes(cluster, ALICE, "secret")
    assert [
        record.getMessage() for record in caplog.records if record.name.startswith("kafka")
    ] == [
        "Principal = User:alice is Denied Operation = Describe from host = 127.0.0.1 on resource "
        "= Topic:LITERAL:secret for request = Metadata with resourceRefCount = 1"
    ]


def _librdkafka(cluster: SecureCluster, user: PlainCredentials) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.clients_bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user.username,
        "sasl.password": user.password,
    }


async def test_librdkafka_produces_where_it_may(cluster: SecureCluster) -> None:
    for name in ("allowed", "denied", "pre-fixed", "nothing"):
        await cluster.create_topic(name)
    await cluster.add_acl("User:alice", Operation.WRITE, TOPIC, "allowed")
    await cluster.add_acl("User:alice", Operation.ALL, TOPIC, "denied")
    await cluster.add_acl(
        "User:alice", Operation.WRITE, TOPIC, "denied", permission=Permission.DENY
    )
    await cluster.add_acl(
        "User:alice", Operation.WRITE, TOPIC, "pre", pattern_type=PatternType.PREFIXED
    )

    def produce() -> dict[str, str | None]:
        outcomes: dict[str, str | None] = {}

        def remember(topic: str) -> Callable[..., None]:
            def delivered(error: Any, _message: Any) -> None:
                outcomes[topic] = None if error is None else error.name()

            return delivered

        producer = Producer(_librdkafka(cluster, ALICE) | {"log_level": 0})
        for name in ("allowed", "denied", "pre-fixed", "nothing"):
            producer.produce(name, b"x", on_delivery=remember(name))
        assert producer.flush(15) == 0
        return outcomes

    assert await asyncio.to_thread(produce) == {
        "allowed": None,
        "denied": "TOPIC_AUTHORIZATION_FAILED",
        "pre-fixed": None,
        "nothing": "TOPIC_AUTHORIZATION_FAILED",
    }


async def test_librdkafka_administers_acls(cluster: SecureCluster) -> None:
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
    )
    from confluent_kafka.admin import ResourceType as Kind

    def administer() -> list[str]:
        admin = AdminClient(_librdkafka(cluster, ADMIN))
        binding = AclBinding(
            Kind.TOPIC, "t", ResourcePatternType.PREFIXED, "User:bob", "*", AclOperation.READ,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        for created in admin.create_acls([binding]).values():
            created.result(10)
        everything = AclBindingFilter(
            Kind.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        found = admin.describe_acls(everything).result(10)
        removed = [f.result(10) for f in admin.delete_acls([everything]).values()]
        assert removed == [found]
        stranger = AdminClient(_librdkafka(cluster, ALICE) | {"log_level": 0})
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            next(iter(stranger.create_acls([binding]).values())).result(10)
        return [each.principal for each in found]

    assert await asyncio.to_thread(administer) == ["User:bob"]
