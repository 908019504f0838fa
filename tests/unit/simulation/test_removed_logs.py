"""Logs may go for two reasons, and any other is told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.metadata.znodes import DeleteTopicZnode, ReplicaAssignment, TopicZnode
from ottla.simulation.removed_logs import RemovedLogs
from ottla.types import ZERO_TOPIC_ID, TopicPartition

ID = b"i" * 16


class Story:
    """Broker 1 has a log of t-0."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.logs = RemovedLogs(self.told.append, [1, 2])
        self.place(1)
        self.look([ID])

    def place(self, *replicas: int, topic_id: bytes | None = ID) -> None:
        data = TopicZnode.encode({0: ReplicaAssignment(replicas)}, topic_id)
        self.logs.written(TopicZnode.path("t"), data)

    def look(self, ids: list[bytes], *aside: str) -> list[str]:
        tp = TopicPartition("t", 0)
        manager: Any = SimpleNamespace(
            logs=lambda: [SimpleNamespace(tp=tp, topic_id=topic_id) for topic_id in ids],
            strays=SimpleNamespace(folders=[Path(f"/data/{name}") for name in aside]),
        )
        node: Any = SimpleNamespace(broker_id=1, parts=SimpleNamespace(log_manager=manager))
        self.logs.look_at(node)
        return self.told


@pytest.fixture
def story() -> Story:
    return Story()


def test_it_went_and_nobody_asked_for_that(story: Story) -> None:
    assert story.look([ID]) == []
    story.logs.removed(TopicZnode.path("t"))
    assert story.look([ID]) == []
    assert len(story.look([])) == 1 and "t-0" in story.told[0]


def test_another_topic_in_its_place_is_no_excuse(story: Story) -> None:
    assert len(story.look([b"n" * 16])) == 1


def test_deleted(story: Story) -> None:
    story.logs.written(DeleteTopicZnode.path("t"), None)
    story.logs.removed(TopicZnode.path("t"))
    story.logs.removed(DeleteTopicZnode.path("t"))
    assert story.look([]) == []


def test_deleted_before_it_had_an_id(story: Story) -> None:
    story.logs.removed(TopicZnode.path("t"))
    story.place(1, topic_id=None)
    story.logs.written(DeleteTopicZnode.path("t"), None)
    story.place(1, topic_id=b"n" * 16)
    story.look([ID, b"n" * 16])
    assert story.look([ID]) == []


def test_moved_away_and_set_aside(story: Story) -> None:
    assert story.look([], "t-0.0123-stray") == []
    story.look([ID])
    story.place(2)
    story.place(1)
    assert story.look([]) == []


def test_power_may_take_it_and_a_log_without_an_id_is_nobodys(story: Story) -> None:
    story.logs.lost_power(1)
    assert story.look([ZERO_TOPIC_ID]) == [] and story.look([]) == []
