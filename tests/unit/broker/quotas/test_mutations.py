"""KIP-599: the token bucket, and what the three APIs answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ottla.broker.handlers import create_partitions, create_topics, delete_topics
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.quotas.entities import Entity, resolve
from ottla.broker.quotas.mutations import (
    MutationQuotas,
    TokenBucket,
)
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import system_runtime
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine
from tests.support.broker.topic_admin_broker import Broker


class StoppedClock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def monotonic_ms(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now)


def mutation_quotas(clock: StoppedClock, **settings: str) -> MutationQuotas:
    properties = {"broker.id": "0", "zookeeper.connect": "z:1", "log.dirs": "/nowhere"}
    properties |= {name.replace("_", "."): value for name, value in settings.items()}
    return MutationQuotas(clock, BrokerConfig.from_properties(properties), MetadataCache())


def test_the_bucket_begins_full_goes_into_debt_and_recovers() -> None:
    """The example of Kafka's own TokenBucket, with a burst of 11 seconds: 5/s, 115 taken."""
    bucket = TokenBucket(5, now_ms=0, burst_s=11)
    assert bucket.refill(5, 0) == 55
    bucket.take(115)
    assert bucket.wait_ms(5) == 12_000
    assert bucket.refill(5, 11_999) < 0
    assert bucket.refill(5, 12_000) == pytest.approx(0)
    assert bucket.wait_ms(5) == 0
    assert bucket.refill(5, 10_000_000) == 55


def test_the_burst_is_as_long_as_the_windows() -> None:
    windows = {"controller_quota_window_num": "3", "controller_quota_window_size_seconds": "2"}
    quotas = mutation_quotas(StoppedClock(), **windows)
    quotas.set(Entity("u", None), {"controller_mutation_rate": "2"})
    quota = quotas.of("User:u", "c", strict=False)
    quota.record(12)
    assert quota.throttle_time_ms == 0
    quota.record(2)
    assert quota.throttle_time_ms == 1_000


def test_without_a_quota_nothing_is_counted() -> None:
    assert resolve({Entity("other", None): 1.0}, "u", "c") is None
    quota = mutation_quotas(StoppedClock()).of("User:u", None, strict=True)
    quota.record(1_000_000)
    assert quota.throttle_time_ms == 0


def test_strict_refuses_once_in_debt_and_permissive_only_says_so() -> None:
    clock = StoppedClock()
    quotas = mutation_quotas(clock)
    quotas.set(Entity("u", None), {"controller_mutation_rate": "2"})
    strict = quotas.of("User:u", "c", strict=True)
    strict.record(30)  # 22 are there: eight go on credit
    assert strict.throttle_time_ms == 0
    with pytest.raises(KafkaError) as refused:
        strict.record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED == 89
    assert strict.throttle_time_ms == 4_000
    clock.now += 1_500
    assert strict.throttle_time_ms == 2_500
    permissive = quotas.of("User:u", "another", strict=False)
    permissive.record(1)
    assert permissive.throttle_time_ms == 3_000
    clock.now += 3_000
    quotas.of("User:u", "c", strict=True).record(1)


@pytest.mark.parametrize("value", ["nonsense", "0", "-1", "nan"])
def test_a_value_without_sense_is_no_quota(value: str) -> None:
    quotas = mutation_quotas(StoppedClock())
    quotas.set(Entity("u", None), {"controller_mutation_rate": value})
    quotas.of("User:u", "c", strict=True).record(1_000)
    quotas.of("User:u", "c", strict=True).record(1_000)


_PATHS = (
    "/brokers",
    "/brokers/topics",
    "/brokers/ids",
    "/config",
    "/config/topics",
    "/config/users",
    "/config/clients",
    "/admin",
    "/admin/delete_topics",
)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    engine = Engine(system_runtime())
    await engine.start()
    made = EmbeddedStore(engine)
    for path in _PATHS:
        await made.create(path)
    yield made
    await engine.stop()


async def test_quotas_are_read_from_the_store(store: EmbeddedStore) -> None:
    value = b'{"version":1,"config":{"controller_mutation_rate":"1.5"}}'
    for path in ("/config/users/u", "/config/users/u/clients", "/config/users/u/clients/c"):
        await store.create(path, None if path.endswith("clients") else value)
    await store.create("/config/clients/<default>", value)
    quotas = mutation_quotas(StoppedClock())
    await quotas.load_all(store)
    assert set(quotas._rates) == {
        Entity("u", None),
        Entity("u", "c"),
        Entity(None, "<default>"),
    }
    await store.set("/config/users/u", b'{"version":1,"config":{}}')
    await quotas.take(store, "users/u")
    await store.delete("/config/clients/<default>")
    await quotas.take(store, "clients/<default>")
    assert set(quotas._rates) == {Entity("u", "c")}


async def test_the_three_apis_answer_89(store: EmbeddedStore) -> None:
    here = Broker(store)
    here.mutation_quotas.set(Entity("ANONYMOUS", None), {"controller_mutation_rate": "0.001"})
    topic = m.CreateTopicsRequest.CreatableTopic
    asked = m.CreateTopicsRequest(
        topics=[topic(name=name, num_partitions=2, replication_factor=1) for name in "ab"],
        timeout_ms=0,
    )
    tried = m.CreateTopicsRequest(topics=asked.topics, validate_only=True)
    await create_topics.handle(here.context(7), tried)
    answer = await create_topics.handle(here.context(6), asked)
    codes = [(t.name, t.error_code, t.error_message) for t in answer.topics]
    assert codes == [("a", 7, None), ("b", 89, None)]
    assert answer.throttle_time_ms > 1_000_000
    assert await store.exists("/brokers/topics/b") is None
    more = m.CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=3, assignments=None)
    await store.create("/brokers/ids/1", b'{"version":1,"host":"h","port":1}')
    request = m.CreatePartitionsRequest(topics=[more], timeout_ms=0)
    expanded = await create_partitions.handle(here.context(3), request)
    assert [r.error_code for r in expanded.results] == [89]
    # Older versions are served and told to wait.
    expanded = await create_partitions.handle(here.context(2), request)
    assert [r.error_code for r in expanded.results] == [7]
    assert expanded.throttle_time_ms > 1_000_000
    here.show("a", 3)
    for version, code in ((5, 89), (4, 7)):
        deletion = m.DeleteTopicsRequest(topic_names=["a"], timeout_ms=0)
        deleted = await delete_topics.handle(here.context(version), deletion)
        assert [r.error_code for r in deleted.responses] == [code]
