"""Reassignment files and what a throttle has to name, as pure functions."""

from __future__ import annotations

import json

import pytest

from ottla.client.admin import reassignment_plan as reassign_plan
from ottla.client.admin.reassignment_plan import Move, Plan, ReassignmentError
from ottla.client.admin.types import Reassignment
from ottla.types import TopicPartition, TopicPartitionReplica

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def text_of(*entries: object) -> str:
    return json.dumps({"version": 1, "partitions": entries})


def test_a_plan_names_partitions_and_directories() -> None:
    plan = reassign_plan.parse_plan(
        text_of(
            {"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/d"]},
            {"topic": "t", "partition": 1, "replicas": [3]},
        )
    )
    assert plan == Plan([(T0, [1, 2]), (T1, [3])], {TopicPartitionReplica("t", 0, 2): "/d"})
    assert reassign_plan.parse_plan('{"partitions":[]}') == Plan([], {})
    assert reassign_plan.parse_plan("{}") == Plan([], {})


def test_what_is_written_is_read_again() -> None:
    written = reassign_plan.to_json({T1: [3], T0: [1, 2]})
    assert written == (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2],'
        '"log_dirs":["any","any"]},{"topic":"t","partition":1,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert reassign_plan.parse_plan(written) == Plan([(T0, [1, 2]), (T1, [3])], {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[" * 100_000, "The input string is not a valid JSON"),
        ("[]", "The input string is not a JSON object"),
        ('{"version":2}', "Not supported version field value 2"),
        ('{"partitions":3}', '"partitions" is not a list of objects'),
        ('{"partitions":[3]}', '"partitions" is not a list of objects'),
        (text_of({"partition": 0, "replicas": []}), '"topic"'),
        (text_of({"topic": "t", "partition": "0", "replicas": []}), '"partition"'),
        (text_of({"topic": "t", "partition": True, "replicas": []}), '"partition"'),
        (text_of({"topic": "t", "partition": 0, "replicas": ["1"]}), '"replicas" holds'),
        (
            text_of({"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": ["any"]}),
            "Size of replicas list List(1, 2) is different from size of log dirs list List(any) "
            "for partition t-0",
        ),
    ],
)
def test_garbage_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ReassignmentError) as caught:
        reassign_plan.parse_plan(text)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("partitions", "reason"),
    [
        ([], "Partition reassignment list cannot be empty"),
        ([(T0, [])], "Partition replica list cannot be empty"),
        ([(T0, [1]), (T0, [2])],
         "Partition reassignment contains duplicate topic partitions: t-0"),
        ([(T0, [1, 1]), (T1, [2, 3, 3, 2])],
         "Partition replica lists may not contain duplicate entries: t-0 contains multiple "
         "entries for 1. t-1 contains multiple entries for 2,3"),
    ],
)  # fmt: skip
def test_what_cannot_be_executed(
    partitions: list[tuple[TopicPartition, list[int]]], reason: str
) -> None:
    with pytest.raises(ReassignmentError) as caught:
        reassign_plan.check_executable(Plan(partitions, {}))
    assert str(caught.value) == reason


def test_topics_and_brokers_of_a_proposal() -> None:
    assert reassign_plan.parse_topics_to_move('{"topics":[{"topic":"a"},{"topic":"b"}]}') == [
        "a",
        "b",
    ]
    with pytest.raises(ReassignmentError, match="List of topics to reassign contains duplicate"):
        reassign_plan.parse_topics_to_move('{"topics":[{"topic":"a"},{"topic":"a"}]}')
    assert reassign_plan.parse_broker_list("0,1") == [0, 1]
    for bad in ("0,x", "0, 1", ""):
        with pytest.raises(ReassignmentError, match="For input string"):
            reassign_plan.parse_broker_list(bad)


def test_throttles_name_sources_and_destinations() -> None:
    under_way = {T1: Reassignment([4, 1, 2], [4], [2])}
    found = reassign_plan.moves(under_way, {T0: [2, 3], T1: [5, 1]}, {T0: [1, 2], T1: [9]})
    assert found == {
        T0: Move(frozenset({1, 2}), frozenset({3})),
        # A move under way counts from where it began.
        T1: Move(frozenset({1, 2}), frozenset({5})),
    }
    assert reassign_plan.leader_throttles(found) == {"t": "0:1,0:2,1:1,1:2"}
    assert reassign_plan.follower_throttles(found) == {"t": "0:3,1:5"}
    assert reassign_plan.involved_brokers(found) == [1, 2, 3, 5]
    with pytest.raises(ReassignmentError, match="Trying to reassign a topic partition t-0 with 0"):
        reassign_plan.moves({}, {T0: [1]}, {})
