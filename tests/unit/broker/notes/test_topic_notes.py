"""The ring of what a broker did about topics."""

from __future__ import annotations

from ottla.broker.notes.topic_notes import (
    FOLDER_MADE,
    LEADER,
    PARTITIONS_NAMED,
    Asker,
    TopicNotes,
)
from ottla.types import TopicPartition
from tests.support.storage.log_helpers import ManualClock


def make_notes(capacity: int = 100) -> tuple[TopicNotes, ManualClock]:
    clock = ManualClock()
    return TopicNotes(clock, capacity), clock


def test_partitions_of_one_topic_share_a_note() -> None:
    notes, _ = make_notes()
    for partition in range(2_000):
        notes.role(LEADER, TopicPartition("t", partition))
    notes.role(LEADER, TopicPartition("other", 0))
    first, second = notes.since(0, 10)
    assert (first.topic, first.count) == ("t", 2_000)
    assert first.partitions == list(range(PARTITIONS_NAMED))
    assert (second.topic, second.count, second.sequence) == ("other", 1, 2)


def test_a_note_that_was_read_is_closed() -> None:
    notes, _ = make_notes()
    notes.role(LEADER, TopicPartition("t", 0))
    assert [note.count for note in notes.since(0, 10)] == [1]
    notes.role(LEADER, TopicPartition("t", 1))
    assert [note.partitions for note in notes.since(1, 10)] == [[1]]


def test_what_comes_later_is_another_note() -> None:
    notes, clock = make_notes()
    notes.folder(FOLDER_MADE, TopicPartition("t", 0), "data/t-0")
    clock.ms += 1_000
    notes.folder(FOLDER_MADE, TopicPartition("t", 1), "data/t-1")
    assert [note.place for note in notes.since(0, 10)] == ["data/t-0", "data/t-1"]


def test_the_ring_is_bounded_and_tells_what_is_lost() -> None:
    notes, _ = make_notes(capacity=3)
    for number in range(10):
        notes.wrote(f"t{number}", "/brokers/topics")
    assert (notes.first, notes.last) == (8, 10)
    assert [note.topic for note in notes.since(0, 10)] == ["t7", "t8", "t9"]
    assert [note.topic for note in notes.since(8, 1)] == ["t8"]


def test_a_note_that_left_the_ring_takes_no_more_partitions() -> None:
    notes, _ = make_notes(capacity=1)
    notes.role(LEADER, TopicPartition("t", 0))
    notes.wrote("other", "/brokers/topics/other")
    notes.role(LEADER, TopicPartition("t", 1))
    assert [note.partitions for note in notes.since(0, 10)] == [[1]]


def test_bad_numbers_are_harmless() -> None:
    notes, _ = make_notes()
    notes.wrote("t", "/brokers/topics/t")
    for since in (-1, -(2**63), 1, 2**63 - 1):
        assert len(notes.since(since, 10)) == (since < 1)
    for limit in (0, -1, -(2**31)):
        assert notes.since(0, limit) == []


def test_long_names_of_clients_are_cut() -> None:
    notes, _ = make_notes()
    notes.asked("t", range(3), Asker("CreateTopics", "c" * 30_000, "User:" + "u" * 30_000))
    (note,) = notes.since(0, 1)
    assert note.count == 3 and note.asker is not None
    assert len(note.asker.client_id or "") == len(note.asker.principal or "") == 200
