"""The publisher alone: bounded, patient where it helps, never in the controller's way."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.metrics import lifecycle_publisher as lp
from ottla.broker.replication.append import ProduceResult
from ottla.config.broker import BrokerConfig
from ottla.controller.journal import LifecycleEvent
from ottla.errors import ErrorCode
from ottla.runtime import Runtime, SystemClock, SystemDisk, SystemNetwork
from ottla.wire.records import iter_batches, iter_records


def event(topic: str | None = "t", number: int = 0) -> LifecycleEvent:
    return LifecycleEvent(1_000 + number, 3, "TopicChange", "partition", topic, partition=number)


class FakeBroker:
    """Leads the topic itself; answers with the codes that it is given, then with success."""

    def __init__(self) -> None:
        self.codes: list[ErrorCode] = []
        self.values: list[dict[str, Any]] = []
        self.keys: list[bytes | None] = []
        self.created: list[Any] = []
        self.leader: int | None = 0
        self.alive = 1
        self.lookups = 0

    def services(self) -> Any:
        config = BrokerConfig.from_properties(
            {
                "broker.id": "0",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "zookeeper.connect": "127.0.0.1:1",
                "offsets.topic.replication.factor": "2",
            }
        )
        return SimpleNamespace(
            broker_id=0,
            config=config,
            runtime=Runtime(SystemClock(), random.Random(1), SystemNetwork(), SystemDisk()),
            controller=SimpleNamespace(is_active=True),
            replica_manager=SimpleNamespace(appends=SimpleNamespace(append=self.append)),
            topic_admin=SimpleNamespace(create_topics=self.create_topics),
            metadata_cache=SimpleNamespace(
                partition_state=self.partition_state,
                alive_brokers=lambda: [None] * self.alive,
                endpoint=lambda _leader, _listener: None,
            ),
        )

    def partition_state(self, _tp: Any) -> Any:
        self.lookups += 1
        return None if self.leader is None else SimpleNamespace(leader=self.leader)

    async def append(self, entries: Any, **_: Any) -> Any:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        ((tp, data),) = entries.items()
        if code is ErrorCode.NONE:
            for _, batch in iter_batches(data):
                for record in iter_records(batch):
                    self.values.append(json.loads(bytes(record.value or b"")))
                    self.keys.append(None if record.key is None else bytes(record.key))
        return {tp: ProduceResult(code)}

    async def create_topics(self, topics: Any, **_: Any) -> Any:
        self.created += topics
        self.leader = 0
        return [SimpleNamespace(error_code=0, error_message=None)]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    monkeypatch.setattr(lp, "_GATHER_S", 0.001)
    monkeypatch.setattr(lp, "_RETRY_S", 0.001)
    return FakeBroker()


@pytest.fixture
async def publisher(broker: FakeBroker) -> AsyncIterator[lp.LifecyclePublisher]:
    made = lp.LifecyclePublisher(broker.services())
    made.start()
    yield made
    await made.stop()


async def until(condition: Any) -> None:
    for _ in range(2_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not in time")


async def test_events_become_json_records(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    publisher.offer(event(number=5))
    publisher.offer(event(topic=None))
    await until(lambda: publisher.published == 2)
    assert broker.keys == [b"t", None]
    assert broker.values[0] == {
        "ts_ms": 1005,
        "controller_epoch": 3,
        "event": "TopicChange",
        "kind": "partition",
        "topic": "t",
        "partition": 5,
    }


async def test_its_own_topic_is_left_out(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    publisher.offer(event(topic=lp.LIFECYCLE_TOPIC))
    publisher.offer(event())
    await until(lambda: publisher.published == 1)
    assert [value["topic"] for value in broker.values] == ["t"]
    assert publisher.dropped == 0


async def test_what_does_not_fit_is_dropped_and_counted(broker: FakeBroker) -> None:
    idle = lp.LifecyclePublisher(broker.services())
    for number in range(lp.MAX_WAITING_EVENTS + 7):
        idle.offer(event(number=number))
    assert idle.dropped == 7


async def test_it_tries_again_while_that_may_help(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    broker.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR]
    publisher.offer(event())
    await until(lambda: publisher.published == 1)
    assert broker.codes == []


async def test_a_batch_that_is_refused_for_good_is_given_up(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    broker.codes = [ErrorCode.MESSAGE_TOO_LARGE]
    publisher.offer(event())
    await until(lambda: publisher.dropped == 1)
    publisher.offer(event(number=1))
    await until(lambda: publisher.published == 1)


async def test_an_unexpected_error_does_not_end_it(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    append = publisher._broker.replica_manager.appends.append

    async def fail(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError

    publisher._broker.replica_manager.appends.append = fail  # type: ignore[method-assign]
    publisher.offer(event())
    await until(lambda: publisher.dropped == 1)
    publisher._broker.replica_manager.appends.append = append  # type: ignore[method-assign]
    publisher.offer(event())
    await until(lambda: publisher.published == 1)


async def test_the_topic_is_created_when_the_brokers_are_there(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    broker.leader = None
    publisher.offer(event())
    await until(lambda: broker.lookups > 2)
    assert broker.created == [], "the second broker is still to come"
    broker.alive = 5
    await until(lambda: publisher.published == 1)
    (topic,) = broker.created
    assert (topic.name, topic.num_partitions, topic.replication_factor) == (
        "__ottla_lifecycle",
        1,
        3,
    )
    assert [(c.name, c.value) for c in topic.configs] == [("cleanup.policy", "delete")]


async def test_only_the_controllers_broker_creates_it(
    broker: FakeBroker, publisher: lp.LifecyclePublisher
) -> None:
    broker.leader, broker.alive = None, 3
    publisher._broker.controller.is_active = False  # type: ignore[misc]
    publisher.offer(event())
    await until(lambda: broker.lookups > 2)
    assert broker.created == []
