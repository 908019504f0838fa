"""From notes and events to steps with words."""

from __future__ import annotations

from typing import Any

from ottla.client.admin.inner_views import JournalEvent, TopicNote
from ottla.console.life.steps import Change, of_events, of_notes


def note(kind: str, **given: Any) -> TopicNote:
    numbers = given.pop("partitions", [0, 1])
    return TopicNote(7, 1_000, kind, "t", len(numbers), numbers, **given)


def event(sequence: int, kind: str, **given: Any) -> JournalEvent:
    return JournalEvent(sequence, 1_000, 3, "TopicChange", kind, topic="t", **given)


def test_lanes_of_notes() -> None:
    notes = [
        note("request", api="CreateTopics", client_id="me", principal="User:ann"),
        note("znodes", place="/brokers/topics/t"),
        note("folder-made", place="data/t-0"),
        note("leader", partitions=[1]),
        note("follower", partitions=[0]),
    ]
    steps = of_notes(2, 500, notes)
    assert [step.lane for step in steps] == ["client", "store", "broker-2", "broker-2", "broker-2"]
    assert steps[0].words.startswith("User:ann (client id me) wants topic t with 2 partitions.")
    assert steps[2].changes == [Change("folder", 0, "made", 2), Change("folder", 1, "made", 2)]
    assert "data/t-0" in steps[2].words and "partition 1" in steps[3].words
    assert sorted(step.order for step in steps)[0] == steps[0].order, "causes come first"


def test_every_way_to_ask_has_words() -> None:
    for api, words in (
        ("CreateTopics", "with 2 partitions"),
        ("CreatePartitions", "2 more partitions"),
        ("DeleteTopics", "gone"),
        ("auto-creation", "does not exist"),
        ("Unheard", "changed"),
    ):
        (step,) = of_notes(0, 0, [note("request", api=api)])
        assert words in step.words and "None" not in step.words


def test_partitions_of_one_kind_are_one_step() -> None:
    new = {"from_state": "NonExistentPartition", "to_state": "NewPartition"}
    events = [event(n, "partition", partition=n, **new) for n in range(3)]
    online = {"from_state": "NewPartition", "to_state": "OnlinePartition", "leader": 1, "isr": [1]}
    events += [event(3, "partition", partition=0, **online)]
    first, second = of_events(3, events)
    assert first.title == "partitions 0, 1, 2: NonExistentPartition → NewPartition"
    assert len(first.changes) == 3 and first.order == [1_000, 2, 0]
    assert second.changes == [Change("partition", 0, "OnlinePartition", None, 1, [1])]
    assert first.id != second.id


def test_replicas_name_their_brokers_and_requests_stay_apart() -> None:
    states = {"from_state": "NewReplica", "to_state": "OnlineReplica"}
    replicas = [event(n, "replica", partition=0, broker=n, **states) for n in range(2)]
    orders = [event(n, "request", broker=n, to_state="LeaderAndIsr") for n in range(2, 4)]
    steps = of_events(3, replicas + orders)
    assert [step.title for step in steps] == [
        "partition 0 on brokers 0, 1: NewReplica → OnlineReplica",
        "LeaderAndIsr to broker 2",
        "LeaderAndIsr to broker 3",
    ]


def test_a_change_of_the_isr_keeps_the_state() -> None:
    (step,) = of_events(
        3, [event(1, "partition", partition=4, cause="the ISR was 1,2", leader=1, isr=[1])]
    )
    assert step.changes == [Change("partition", 4, "", None, 1, [1])]
    assert "the ISR was 1,2" in step.title


def test_no_kind_is_without_words() -> None:
    kinds = ("event", "partition", "replica", "topic", "broker", "request", "answer", "illegal")
    for kind in (*kinds, "unheard-of"):
        (step,) = of_events(3, [event(1, kind, partition=0, broker=1, to_state="X", cause="y")])
        assert step.words and step.title
    for outcome, words in (("NONE", "without an error"), ("UNKNOWN", "with UNKNOWN")):
        (step,) = of_events(
            3, [event(1, "answer", broker=1, to_state="StopReplica", error=outcome)]
        )
        assert words in step.words


def test_thousands_of_partitions_are_a_number() -> None:
    states = {"from_state": "NewPartition", "to_state": "OnlinePartition"}
    (step,) = of_events(3, [event(n, "partition", partition=n, **states) for n in range(2_000)])
    assert step.title.startswith("2,000 partitions:")
