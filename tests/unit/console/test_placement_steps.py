from __future__ import annotations

from random import Random

import pytest

from ottla.console.placement_steps import MAX_STEPPED_PARTITIONS, draw
from ottla.errors import ErrorCode, KafkaError
from ottla.topics.assignment import BrokerMetadata

_RACKS = (None, ("a",), ("a", "b"), ("a", "b", "b", "c"))


def _brokers(count: int, racks: tuple[str, ...] | None) -> list[BrokerMetadata]:
    return [
        BrokerMetadata(10 + i, None if racks is None else racks[i % len(racks)])
        for i in range(count)
    ]


@pytest.mark.parametrize("racks", _RACKS)
def test_the_steps_end_in_the_assignment(racks: tuple[str, ...] | None) -> None:
    for brokers in range(1, 7):
        for factor in range(1, brokers + 1):
            for start in range(brokers):
                for shift in (0, 1, 5):
                    made = draw(
                        _brokers(brokers, racks), 14, factor,
                        random=Random(1), start_index=start, shift=shift,
                    )  # fmt: skip
                    stepped: dict[int, list[int]] = {}
                    for step in made.steps:
                        stepped.setdefault(step.partition, []).append(step.broker)
                        assert made.places[step.index].broker == step.broker
                        assert step.index not in step.passed
                    assert list(stepped.values()) == made.assignment


def test_a_rack_that_has_a_replica_is_passed_over_in_words() -> None:
    brokers = [BrokerMetadata(0, "east"), BrokerMetadata(1, "west"), BrokerMetadata(2, "west")]
    made = draw(brokers, 3, 2, random=Random(1), start_index=1, shift=0)
    passing = [step for step in made.steps if step.passed]
    assert passing
    assert "rack west has one, others have none: passed over" in passing[0].words


def test_the_shift_grows_when_all_brokers_have_had_a_first_replica() -> None:
    brokers = [BrokerMetadata(i) for i in range(3)]
    made = draw(brokers, 4, 2, random=Random(1), start_index=0, shift=0)
    firsts = [step for step in made.steps if step.replica == 0]
    assert [step.shift for step in firsts] == [0, 0, 0, 1]
    assert "the shift grows to 1" in firsts[3].words


def test_many_partitions_are_assigned_and_some_are_stepped_through() -> None:
    made = draw([BrokerMetadata(i) for i in range(3)], 10_000, 3, random=Random(1))
    assert len(made.assignment) == 10_000
    assert made.stepped_partitions == MAX_STEPPED_PARTITIONS
    assert len(made.steps) == 3 * MAX_STEPPED_PARTITIONS


@pytest.mark.parametrize("count", [0, 2])
def test_more_replicas_than_brokers(count: int) -> None:
    with pytest.raises(KafkaError) as caught:
        draw([BrokerMetadata(i) for i in range(count)], 1, 3, random=Random(1))
    assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
