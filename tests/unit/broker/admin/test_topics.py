"""Topics created, expanded and deleted: znodes written, codes, texts, waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.broker.admin.policies import BadPolicyError, PolicyViolation, TopicRequest
from ottla.broker.handlers import create_partitions, create_topics, delete_topics
from ottla.broker.membership.registration import create_permanent_paths, register
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import znodes
from ottla.metadata.store import ConnectionLossError, NoNodeError
from ottla.types import ZERO_TOPIC_ID, Endpoint
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import broker, partition, update
from tests.support.broker.topic_admin_broker import Broker

Creatable = m.CreateTopicsRequest.CreatableTopic
Config = m.CreateTopicsRequest.CreatableTopicConfig
Assignment = m.CreateTopicsRequest.CreatableReplicaAssignment
Expansion = m.CreatePartitionsRequest.CreatePartitionsTopic
NewAssignment = m.CreatePartitionsRequest.CreatePartitionsAssignment


@pytest.fixture
async def here(store: EmbeddedStore) -> Broker:
    await create_permanent_paths(store)
    return Broker(store)


def _topic(name: str, partitions: int = 2, factor: int = 2, **configs: str | None) -> Creatable:
    return Creatable(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[Config(name=key.replace("_", "."), value=v) for key, v in configs.items()],
    )


async def test_creation_writes_config_and_topic(here: Broker, store: EmbeddedStore) -> None:
    waiting = asyncio.create_task(here.create(_topic("t", retention_ms="1000"), timeout_ms=5_000))
    await here.cache.first_look.wait()
    assert here.cache.looks == [False], "must wait for leaders"
    here.show("t", 1)
    assert here.cache.looks == [False, False], "one of two partitions is not enough"
    assert not waiting.done()
    here.show("t", 2)
    (result,) = await waiting
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 2)
    data, _ = await store.get("/config/topics/t")
    assert data == b'{"version":1,"config":{"retention.ms":"1000"}}'
    stored = znodes.TopicZnode.decode((await store.get("/brokers/topics/t"))[0])
    assert stored.topic_id == result.topic_id != ZERO_TOPIC_ID
    assert sorted(stored.partitions) == [0, 1]
    shown = {config.name: config for config in result.configs}
    assert (shown["retention.ms"].value, shown["retention.ms"].config_source) == ("1000", 1)
    assert shown["segment.bytes"].value == "1073741824"


async def test_no_time_to_wait_is_a_time_out_of_something_created(
    here: Broker, store: EmbeddedStore
) -> None:
    (result,) = await here.create(_topic("t"))
    assert (result.error_code, result.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    assert await store.exists("/brokers/topics/t") is not None
    (late,) = await here.create(_topic("u"), timeout_ms=20)
    assert late.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_validate_only_writes_nothing(here: Broker, store: EmbeddedStore) -> None:
    (result,) = await here.create(_topic("t"), validate_only=True)
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 2, ZERO_TOPIC_ID)
    assert await store.exists("/brokers/topics/t") is None
    assert await store.exists("/config/topics/t") is None


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (_topic("known"), 36, "Topic 'known' already exists."),
        (_topic("stored"), 36, "Topic 'stored' already exists."),
        (_topic("x", a=None), 42, "Null value not supported for topic configs : a"),
        (_topic("x", partitions=0), 37, "Number of partitions must be larger than 0."),
        (_topic("x", factor=0), 38, "Replication factor must be larger than 0."),
        (_topic("x", factor=4), 38, "Replication factor: 4 larger than available brokers: 3."),
        (_topic(""), 17, "Topic name is illegal, it can't be empty"),
        (_topic(".."), 17, 'Topic name cannot be "." or ".."'),
        (
            _topic("a/b"),
            17,
            'Topic name "a/b" is illegal, it contains a character other than ASCII '
            "alphanumerics, '.', '_' and '-'",
        ),
        (_topic("st.ored"), 17, "Topic 'st.ored' collides with existing topics: st_ored"),
        (_topic("x", nonsense="1"), 40, "Unknown topic config name: nonsense"),
        (
            _topic("x", retention_ms="soon"),
            40,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
        (
            Creatable(
                name="x",
                num_partitions=1,
                replication_factor=1,
                assignments=[Assignment(partition_index=0, broker_ids=[1])],
            ),
            42,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both "
            "cannot be used at the same time.",
        ),
        (
            Creatable(
                name="x",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[Assignment(partition_index=1, broker_ids=[1])],
            ),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
    ],
)
async def test_refusals(here: Broker, topic: Creatable, code: int, message: str) -> None:
    here.show("known", 1)
    await here.create(_topic("stored"), _topic("st_ored"))
    (result,) = await here.create(topic)
    assert (result.error_code, result.error_message) == (code, message)
    assert (result.num_partitions, result.replication_factor) == (-1, -1)


async def test_bad_topics_do_not_stop_good_ones(here: Broker, store: EmbeddedStore) -> None:
    names = [f"t{i}" for i in range(120)]
    results = await here.create(*(_topic(name) for name in names), _topic("b", factor=9))
    assert [r.error_code for r in results] == [7] * 120 + [38]
    assert sorted(await store.children("/brokers/topics")) == sorted(names)


async def test_names_that_collide_within_one_request(here: Broker) -> None:
    first, second = await here.create(_topic("a.b"), _topic("a_b"))
    assert (first.error_code, second.error_code) == (7, 17)


async def test_a_leftover_config_is_overwritten(here: Broker, store: EmbeddedStore) -> None:
    await store.create("/config/topics/t", b"old")
    first, second = await here.create(_topic("t"), _topic("u"))
    assert (first.error_code, second.error_code) == (7, 7)
    data, _ = await store.get("/config/topics/t")
    assert data == b'{"version":1,"config":{}}'


async def test_racks_only_in_part_is_an_unknown_error_without_text(here: Broker) -> None:
    here.cache.update(update(brokers=[broker(1, rack="r"), broker(2)]))
    (result,) = await here.create(_topic("t"))
    assert (result.error_code, result.error_message) == (-1, None)


async def test_counts_default_to_the_brokers(store: EmbeddedStore) -> None:
    await create_permanent_paths(store)
    here = Broker(store, num_partitions="4", default_replication_factor="3")
    (result,) = await here.create(_topic("t", -1, -1), validate_only=True)
    assert (result.num_partitions, result.replication_factor) == (4, 3)


class OnlySmall:
    def validate(self, request: TopicRequest) -> None:
        if (request.num_partitions or 0) > 1:
            raise PolicyViolation(f"{request.topic} is too large")


async def test_policy(store: EmbeddedStore) -> None:
    await create_permanent_paths(store)
    here = Broker(store, **{"create.topic.policy.class.name": f"{__name__}:OnlySmall"})
    small, large = await here.create(_topic("s", 1), _topic("l", 2))
    assert small.error_code == ErrorCode.REQUEST_TIMED_OUT
    assert (large.error_code, large.error_message) == (44, "l is too large")
    with pytest.raises(BadPolicyError, match="no_such_module:X cannot be loaded"):
        Broker(store, **{"create.topic.policy.class.name": "no_such_module:X"})


async def test_create_handler_duplicates_and_not_controller(here: Broker) -> None:
    request = m.CreateTopicsRequest(topics=[_topic("t"), _topic("u"), _topic("t")], timeout_ms=0)
    for version in range(8):
        answer = await create_topics.handle(here.context(version), request)
        assert [t.name for t in answer.topics] == ["t", "u", "t"]
        twice = answer.topics[2]
        assert (twice.error_code, twice.error_message) == (
            42,
            "Found multiple entries for this topic.",
        )
        assert answer.encode(version)
    here.controller.is_active = False
    answer = await create_topics.handle(here.context(7), request)
    assert [t.error_code for t in answer.topics] == [41, 41, 41]


async def test_created_answer_fits_every_version(here: Broker) -> None:
    (result,) = await here.create(_topic("t", retention_ms="5"), validate_only=True)
    for version in range(8):
        assert m.CreateTopicsResponse(topics=[result]).encode(version)


async def _registered(store: EmbeddedStore) -> None:
    for broker_id in (1, 2, 3):
        endpoint = Endpoint("PLAINTEXT", "h", 9000 + broker_id)
        info = znodes.BrokerInfo(broker_id, (endpoint,), None)
        await register(store, info, session_timeout_ms=1000)


async def test_expansion(here: Broker, store: EmbeddedStore) -> None:
    await _registered(store)
    await here.create(_topic("t", 2, 2))
    before = znodes.TopicZnode.decode((await store.get("/brokers/topics/t"))[0])
    (checked,) = await here.admin.create_partitions(
        [Expansion(name="t", count=5, assignments=None)], timeout_ms=0, validate_only=True
    )
    assert checked.error_code == 0
    waiting = asyncio.create_task(
        here.admin.create_partitions(
            [Expansion(name="t", count=5, assignments=None)], timeout_ms=5_000
        )
    )
    await here.cache.first_look.wait()
    here.show("t", 2)
    assert here.cache.looks == [False, False], "the new ones count"
    assert not waiting.done()
    here.show("t", 5)
    (result,) = await waiting
    assert (result.error_code, result.error_message) == (0, None)
    after = znodes.TopicZnode.decode((await store.get("/brokers/topics/t"))[0])
    assert sorted(after.partitions) == [0, 1, 2, 3, 4]
    assert after.topic_id == before.topic_id
    assert all(after.partitions[p] == before.partitions[p] for p in before.partitions)


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (Expansion(name="none", count=3, assignments=None), 3, "The topic 'none' does not exist."),
        (Expansion(name="a/b", count=3, assignments=None), 3, "The topic 'a/b' does not exist."),
        (Expansion(name="", count=3, assignments=None), 3, "The topic '' does not exist."),
        (Expansion(name="t", count=2, assignments=None), 37, "Topic already has 2 partitions."),
        (
            Expansion(name="t", count=1, assignments=None),
            37,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        (
            Expansion(name="t", count=3, assignments=[NewAssignment(broker_ids=[1, 9])]),
            39,
            "Unknown broker(s) in replica assignment: 9.",
        ),
        (
            Expansion(name="queued", count=3, assignments=None),
            17,
            "The topic is queued for deletion.",
        ),
    ],
)
async def test_expansion_refusals(
    here: Broker, store: EmbeddedStore, topic: Expansion, code: int, message: str
) -> None:
    await _registered(store)
    await here.create(_topic("t", 2, 2))
    here.controller.queued.add("queued")
    answer = await create_partitions.handle(
        here.context(3), m.CreatePartitionsRequest(topics=[topic], timeout_ms=0)
    )
    assert [(r.error_code, r.error_message) for r in answer.results] == [(code, message)]


async def test_expansion_handler_duplicates_and_not_controller(here: Broker) -> None:
    request = m.CreatePartitionsRequest(topics=[Expansion(name="t", count=3)] * 2)
    answer = await create_partitions.handle(here.context(3), request)
    assert [(r.error_code, r.error_message) for r in answer.results] == [
        (42, "Duplicate topic in request.")
    ]
    here.controller.is_active = False
    answer = await create_partitions.handle(here.context(3), request)
    assert {r.error_code for r in answer.results} == {41}


async def test_deletion_marks_and_waits(here: Broker, store: EmbeddedStore) -> None:
    await here.create(_topic("t"))
    here.show("t", 2)
    waiting = asyncio.create_task(here.admin.delete_topics(["t", "u"], timeout_ms=5_000))
    await here.cache.first_look.wait()
    assert await store.exists("/admin/delete_topics/t") is not None
    assert here.cache.looks == [False]
    assert not waiting.done()
    here.hide("t")
    assert await waiting == {"t": ErrorCode.NONE, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_deletion_twice_and_without_time(here: Broker) -> None:
    await here.create(_topic("t"))
    here.show("t", 2)
    here.show("ghost", 1)
    for _ in range(2):
        codes = await here.admin.delete_topics(["t", "ghost"], timeout_ms=0)
        assert codes == {"t": ErrorCode.REQUEST_TIMED_OUT, "ghost": 3}


async def test_delete_handler(here: Broker) -> None:
    state = m.DeleteTopicsRequest.DeleteTopicState
    await here.create(_topic("t"))
    here.cache.update(update({"t": [partition(0)]}, ids={"t": b"i" * 16}))
    by_name = m.DeleteTopicsRequest(topic_names=["t"], timeout_ms=0)
    by_id = m.DeleteTopicsRequest(
        topics=[state(name=None, topic_id=b"i" * 16), state(name=None, topic_id=b"x" * 16)],
        timeout_ms=0,
    )
    answer = await delete_topics.handle(here.context(5), by_name)
    assert [(r.name, r.error_code) for r in answer.responses] == [("t", 7)]
    answer = await delete_topics.handle(here.context(6), by_id)
    assert [(r.name, r.error_code) for r in answer.responses] == [("t", 7), (None, 100)]
    assert answer.encode(6)
    both = m.DeleteTopicsRequest(topics=[state(name="t", topic_id=b"i" * 16)])
    answer = await delete_topics.handle(here.context(6), both)
    assert [(r.name, r.error_code, r.error_message) for r in answer.responses] == [("t", 42, None)]
    here.controller.is_active = False
    answer = await delete_topics.handle(here.context(5), by_name)
    assert answer.responses[0].error_code == 41


@pytest.mark.parametrize(("version", "code"), [(2, 42), (3, 73)])
async def test_deletion_disabled(store: EmbeddedStore, version: int, code: int) -> None:
    await create_permanent_paths(store)
    here = Broker(store, delete_topic_enable="false")
    answer = await delete_topics.handle(
        here.context(version), m.DeleteTopicsRequest(topic_names=["t"])
    )
    assert answer.responses[0].error_code == code


async def test_automatic_creation_by_the_controller(here: Broker, store: EmbeddedStore) -> None:
    codes = await here.admin.missing_topics(["t", "a/b", "x" * 250], create=True)
    assert codes == {"t": 5, "a/b": 17, "x" * 250: 17}
    assert await store.exists("/brokers/topics/t") is not None
    assert await here.admin.missing_topics(["t"], create=True) == {"t": 5}
    assert here.channel.sent == []


async def test_automatic_creation_by_another_broker_asks_the_controller(
    here: Broker, store: EmbeddedStore
) -> None:
    here.controller.is_active = False
    assert await here.admin.missing_topics(["t"], create=True) == {"t": 3}
    assert await here.admin.missing_topics(["t"], create=True) == {"t": 3}
    await asyncio.sleep(0)
    assert [topic.name for message, _ in here.channel.sent for topic in message.topics] == ["t"]
    with pytest.raises(NoNodeError):
        await store.get("/brokers/topics/t")
    await here.admin.close()


async def test_automatic_creation_asks_until_a_controller_answers(here: Broker) -> None:
    """The client need not ask again: the controller that died with the request has a successor."""
    here.controller.is_active = False
    result = m.CreateTopicsResponse.CreatableTopicResult
    here.channel.answers = [
        ConnectionError("gone"),
        TimeoutError("silent"),
        m.CreateTopicsResponse(topics=[result(name="t", error_code=41), result(name="u")]),
        m.CreateTopicsResponse(topics=[result(name="t")]),
    ]
    here.channel.release.set()
    await here.admin.missing_topics(["t", "u"], create=True)
    await here.channel.answered.wait()
    asked = [[topic.name for topic in message.topics] for message, _ in here.channel.sent]
    assert asked == [["t", "u"], ["t", "u"], ["t", "u"], ["t"]]
    # Nothing is under way any more: whoever asks next is heard.
    here.channel.release.clear()
    await here.admin.missing_topics(["t"], create=True)
    await asyncio.sleep(0)
    assert len(here.channel.sent) == 5
    await here.admin.close()


async def test_automatic_creation_gives_up_in_the_end(store: EmbeddedStore) -> None:
    await create_permanent_paths(store)
    here = Broker(store, request_timeout_ms="250")
    here.controller.is_active = False
    here.channel.release.set()
    here.channel.answers = [ConnectionError("gone")] * 100
    await here.admin.missing_topics(["t"], create=True)
    await asyncio.gather(*(t for t in asyncio.all_tasks() if t.get_name() == "automatic-topics"))
    assert 1 < len(here.channel.sent) < 10


async def test_a_broker_that_was_told_nothing_yet_denies_no_topic_that_exists(
    here: Broker, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.controller.is_active = False
    await store.create("/brokers/topics/there")
    codes = await here.admin.missing_topics(["there", "not-there"], create=False)
    assert codes == {"there": 5, "not-there": 3}
    codes = await here.admin.missing_topics(["there"], create=True)
    assert codes == {"there": 5} and here.channel.sent == [], "nobody is asked to create it"

    async def unreachable(path: str) -> None:
        raise ConnectionLossError(path)

    with monkeypatch.context() as patched:
        patched.setattr(store, "exists", unreachable)
        assert await here.admin.missing_topics(["there"], create=True) == {"there": 5}
    here.show("another", 1)
    assert await here.admin.missing_topics(["there"], create=False) == {"there": 3}


@pytest.mark.parametrize("enabled", ["true", "false"])
async def test_nothing_is_created_unless_both_sides_want_it(
    store: EmbeddedStore, enabled: str
) -> None:
    await create_permanent_paths(store)
    here = Broker(store, auto_create_topics_enable=enabled)
    codes = await here.admin.missing_topics(["t", "a/b"], create=enabled == "false")
    assert codes == {"t": 3, "a/b": 17}
    assert await store.exists("/brokers/topics/t") is None


async def test_factor_too_large_shows_in_automatic_creation(store: EmbeddedStore) -> None:
    await create_permanent_paths(store)
    here = Broker(store, default_replication_factor="9")
    assert await here.admin.missing_topics(["t"], create=True) == {"t": 38}


async def test_racks_only_in_part_show_in_automatic_creation(
    here: Broker, store: EmbeddedStore
) -> None:
    """ADR 29: not as old releases did, which passed over racks then."""
    here.cache.update(update(brokers=[broker(1, rack="r"), broker(2)]))
    assert await here.admin.missing_topics(["t"], create=True) == {"t": -1}
    assert await store.exists("/brokers/topics/t") is None


async def test_metadata_makes_no_internal_topic_where_the_switch_is_off(
    store: EmbeddedStore,
) -> None:
    """ADR 30: only coordinators do, see below."""
    await create_permanent_paths(store)
    here = Broker(store, auto_create_topics_enable="false")
    names = ["__consumer_offsets", "__transaction_state"]
    assert await here.admin.missing_topics(names, create=True) == dict.fromkeys(names, 3)
    assert await store.children("/brokers/topics") == []


async def test_placement_does_not_depend_on_the_order_in_which_brokers_came(
    store: EmbeddedStore,
) -> None:
    """ADR 31."""
    await create_permanent_paths(store)
    placements = []
    for name, order in (("a", [9, 70, 3, 200, 41]), ("b", [200, 41, 3, 9, 70])):
        here = Broker(store)  # draws the same numbers each time
        here.cache.update(update(brokers=[broker(broker_id) for broker_id in order]))
        await here.create(_topic(name, 10, 3))
        data, _ = await store.get(f"/brokers/topics/{name}")
        placements.append(znodes.TopicZnode.decode(data).partitions)
    first = [partition.replicas[0] for _, partition in sorted(placements[0].items())]
    ids = [3, 9, 41, 70, 200]
    start = ids.index(first[0])
    assert first == [ids[(start + index) % 5] for index in range(10)], "round robin by id"
    assert placements[0] == placements[1]


async def test_internal_topics_whatever_the_switch_says(store: EmbeddedStore) -> None:
    await create_permanent_paths(store)
    here = Broker(
        store,
        auto_create_topics_enable="false",
        offsets_topic_num_partitions="3",
        transaction_state_log_num_partitions="2",
    )
    await here.admin.ensure_internal_topic("__consumer_offsets")
    await here.admin.ensure_internal_topic("__transaction_state")
    data, _ = await store.get("/config/topics/__consumer_offsets")
    assert znodes.ConfigZnode.decode(data) == {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": "104857600",
    }
    data, _ = await store.get("/config/topics/__transaction_state")
    assert znodes.ConfigZnode.decode(data) == {
        "compression.type": "uncompressed",
        "cleanup.policy": "compact",
        "min.insync.replicas": "2",
        "segment.bytes": "104857600",
        "unclean.leader.election.enable": "false",
    }
    stored = znodes.TopicZnode.decode((await store.get("/brokers/topics/__consumer_offsets"))[0])
    assert len(stored.partitions) == 3


async def test_expansion_looks_again_when_the_topic_changed_meanwhile(
    here: Broker, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _registered(store)
    await here.create(_topic("t", 1, 2))
    path = "/brokers/topics/t"
    original = store.set
    interfered = 0

    async def set_after_another(where: str, data: bytes | None, version: int = -1) -> Any:
        nonlocal interfered
        if where == path and not interfered:
            interfered += 1
            present = znodes.TopicZnode.decode((await store.get(path))[0])
            grown = dict(present.partitions) | {1: znodes.ReplicaAssignment((3, 1))}
            await original(path, znodes.TopicZnode.encode(grown, present.topic_id))
        return await original(where, data, version)

    monkeypatch.setattr(store, "set", set_after_another)
    (result,) = await here.admin.create_partitions(
        [Expansion(name="t", count=3, assignments=None)], timeout_ms=0
    )
    assert (interfered, result.error_code) == (1, ErrorCode.REQUEST_TIMED_OUT)
    stored = znodes.TopicZnode.decode((await store.get(path))[0])
    assert sorted(stored.partitions) == [0, 1, 2]
    assert stored.partitions[1].replicas == (3, 1), "the other writer's partition stays"


TOO_MANY = (
    ErrorCode.POLICY_VIOLATION,
    "Excessively large number of partitions per request.",
)


@pytest.mark.parametrize(
    "topics",
    [
        [_topic("t", 2**31 - 1)],
        [_topic("t", 10_001)],
        [_topic(f"t{number}", 2_000) for number in range(6)],
        [_topic(f"t{number}", 0) for number in range(10_001)],
        [
            Creatable(
                name="t",
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    Assignment(partition_index=number, broker_ids=[1]) for number in range(10_001)
                ],
            )
        ],
    ],
    ids=["one huge", "one more than allowed", "together", "empty ones", "assigned"],
)
async def test_more_partitions_than_a_request_may_make(
    here: Broker, store: EmbeddedStore, topics: list[Creatable]
) -> None:
    for validate_only in (True, False):
        request = m.CreateTopicsRequest(topics=topics, timeout_ms=0, validate_only=validate_only)
        with pytest.raises(KafkaError) as caught:
            await create_topics.handle(here.context(5), request)
        assert (caught.value.code, caught.value.message) == TOO_MANY
    assert await store.children("/brokers/topics") == []


async def test_as_many_partitions_as_a_request_may_make(here: Broker) -> None:
    results = await create_topics.handle(
        here.context(5), m.CreateTopicsRequest(topics=[_topic("t", 10_000)], timeout_ms=0)
    )
    assert [(r.error_code, r.error_message) for r in results.topics] == [
        (ErrorCode.REQUEST_TIMED_OUT, None)
    ]


async def test_more_partitions_than_an_expansion_may_add(here: Broker) -> None:
    here.show("t", 2)
    request = m.CreatePartitionsRequest(
        topics=[Expansion(name="t", count=10_003, assignments=None)], timeout_ms=0
    )
    with pytest.raises(KafkaError) as caught:
        await create_partitions.handle(here.context(2), request)
    assert (caught.value.code, caught.value.message) == TOO_MANY


async def test_a_topic_that_does_not_fit_a_znode_is_refused_and_others_are_made(
    here: Broker, store: EmbeddedStore
) -> None:
    replicas = list(range(100_000, 100_030))
    large = Creatable(
        name="large",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            Assignment(partition_index=number, broker_ids=replicas) for number in range(6_000)
        ],
    )
    results = await here.create(large, _topic("small"))
    assert [r.error_code for r in results] == [
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.REQUEST_TIMED_OUT,
    ]
    assert "too large to be stored" in results[0].error_message
    assert await store.children("/brokers/topics") == ["small"]
    assert await store.exists("/config/topics/large") is None


async def test_topics_with_long_configs_do_not_share_a_packet(
    here: Broker, store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    multi = store.multi

    async def measured(ops: Any) -> Any:
        sizes.append(sum(len(op.data or b"") for op in ops))
        return await multi(ops)

    monkeypatch.setattr(store, "multi", measured)
    replicas = ",".join(f"{number}:1" for number in range(5_000))[:32_000].rpartition(",")[0]
    topics = [
        _topic(f"t{number}", leader_replication_throttled_replicas=replicas) for number in range(50)
    ]
    assert {r.error_code for r in await here.create(*topics)} == {ErrorCode.REQUEST_TIMED_OUT}
    assert len(await store.children("/brokers/topics")) == 50
    assert len(sizes) > 2
    assert max(sizes) <= 512 * 1024


async def test_automatic_creation_stays_within_the_bound_of_a_request(
    store: EmbeddedStore,
) -> None:
    await create_permanent_paths(store)
    here = Broker(store, num_partitions="4000", default_replication_factor="1")
    codes = await here.admin.missing_topics(["a", "b", "c"], create=True)
    assert codes == {
        "a": ErrorCode.LEADER_NOT_AVAILABLE,
        "b": ErrorCode.LEADER_NOT_AVAILABLE,
        "c": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # whoever wants it asks again
    }
    assert sorted(await store.children("/brokers/topics")) == ["a", "b"]


async def test_refused_topics_do_not_fill_the_log(
    here: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "ottla.broker.admin.topics"):
        await here.create(*(_topic(f"bad name {number}") for number in range(1_000)))
    assert len([line for line in caplog.messages if "is not created" in line]) == 100
