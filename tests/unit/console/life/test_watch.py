"""Looking again and again: nothing is told twice, a successor is read from its beginning."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.admin.inner_views import (
    BrokerView,
    ControllerView,
    JournalEvent,
    StateCount,
    TopicNote,
)
from ottla.console.life.watch import MAX_STEPS, LifeWatch, take_record
from ottla.errors import ErrorCode, KafkaError


class Cluster:
    """A controller with a journal and one broker with notes."""

    def __init__(self) -> None:
        self.epoch = 1
        self.started_ms = 5
        self.events = 0
        self.notes = 0
        self.is_ottla = True
        self.down = False
        self.cluster = SimpleNamespace(nodes=self._nodes)

    async def _nodes(self) -> list[Any]:
        return [SimpleNamespace(id=0)]

    async def controller_view(self, *, since: int, limit: int) -> ControllerView | None:
        if not self.is_ottla:
            return None
        found = [
            JournalEvent(n, n, self.epoch, "TopicChange", "topic", topic="t", to_state=f"S{n}")
            for n in range(since + 1, self.events + 1)
        ][:limit]
        return ControllerView(
            0, self.epoch, 1, 2, [StateCount("partition", "NewPartition", 1)], [], 0, 0, [], None,
            0, 0, 1, found[-1].sequence if found else self.events, found,
        )  # fmt: skip

    async def broker_view(self, broker_id: int, *, since: int, limit: int) -> BrokerView:
        if self.down:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        notes = [TopicNote(n, n, "leader", "t", 1, [0]) for n in range(since + 1, self.notes + 1)][
            :limit
        ]
        last = notes[-1].sequence if notes else self.notes
        zeros = [0] * 11
        return BrokerView(broker_id, self.started_ms, 9, *zeros, 1, last, notes)


@pytest.fixture
def cluster() -> Any:
    return Cluster()


async def test_what_was_told_is_not_told_again(cluster: Any) -> None:
    watch = LifeWatch(cluster)
    assert watch.whole() is None
    cluster.events, cluster.notes = 3, 2
    first = await watch.poll()
    assert first is not None and len(first.steps) == 5 and first.brokers == [0]
    assert [step.order for step in first.steps] == sorted(step.order for step in first.steps)
    assert await watch.poll() is None
    cluster.notes += 1
    second = await watch.poll()
    assert second is not None and [step.id for step in second.steps] == ["b0-5-3"]
    whole = watch.whole()
    assert whole is not None and len(whole.steps) == 6


async def test_many_events_come_in_pages_and_are_bounded(cluster: Any) -> None:
    cluster.events = 7_000
    watch = LifeWatch(cluster)
    found = await watch.poll()
    assert found is not None and len(found.steps) == 7_000
    whole = watch.whole()
    assert whole is not None and len(whole.steps) == MAX_STEPS


async def test_a_successor_and_a_broker_that_began_again(cluster: Any) -> None:
    watch = LifeWatch(cluster)
    cluster.events, cluster.notes = 50, 50
    await watch.poll()
    cluster.epoch, cluster.started_ms = 2, 6
    cluster.events, cluster.notes = 2, 1
    found = await watch.poll()
    assert found is not None and found.head is not None and found.head.epoch == 2
    assert sorted(step.id for step in found.steps) == ["b0-6-1", "c2-1", "c2-2"]


async def test_a_broker_that_is_down_does_not_hide_the_others(cluster: Any) -> None:
    cluster.down, cluster.events = True, 1
    found = await LifeWatch(cluster).poll()
    assert found is not None and found.brokers == [] and len(found.steps) == 1


async def test_apache_kafka(cluster: Any) -> None:
    cluster.is_ottla = False
    record = await take_record(cluster, 17)
    assert record.life.head is None and record.saved_ms == 17
