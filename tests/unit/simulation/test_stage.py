"""What the clients of one run share."""

from __future__ import annotations

from dataclasses import replace

from ottla.simulation.scenario import DataPlan
from ottla.simulation.stage import Stage
from ottla.simulation.trace import Trace
from ottla.types import TopicPartition

PLAN = DataPlan(topics=2, partitions=2, producers=1, groups=1)


def make_stage(plan: DataPlan = PLAN, seed: str = "s") -> tuple[Stage, Trace]:
    trace = Trace(lambda: 1.5, keep=True)
    stage = Stage(
        plan, seed, bootstrap="b:1", broker_ids=range(3), trace=trace, violated=lambda _: None
    )
    return stage, trace


def test_topics_partitions_and_groups_follow_from_the_plan() -> None:
    stage, trace = make_stage()
    assert stage.topics == ["data-0", "data-1"]
    assert stage.partitions == [
        TopicPartition(topic, number) for topic in stage.topics for number in (0, 1)
    ]
    assert stage.groups == ["group-0"]
    stage.note("reader-0", "3 records")
    assert trace.lines == ["1.500000 data reader-0 3 records\n"]


def test_without_producers_there_is_nothing_to_read() -> None:
    stage, _ = make_stage(replace(PLAN, producers=0))
    assert (stage.topics, stage.partitions, stage.groups) == ([], [], [])


def test_every_client_has_random_numbers_of_its_own() -> None:
    drawn = [make_stage()[0].random_of(name).random() for name in ("a", "a", "b")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert make_stage(seed="t")[0].random_of("a").random() != drawn[0]
