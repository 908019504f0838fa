"""Notes of brokers and events of the controller as steps of one story, a sentence each.

What the controller did to many partitions at once is one step with a change for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from ottla.client.admin.inner_views import JournalEvent, TopicNote

CLIENT, STORE, CONTROLLER = "client", "store", "controller"
# Of what happens in one millisecond, causes come first.
_RANK_OF_REQUEST, _RANK_OF_ZNODES, _RANK_OF_CONTROLLER, _RANK_OF_BROKER = 0, 1, 2, 3
_NAMED = 5
MANY_TOPICS = "*"


class Change(msgspec.Struct, frozen=True):
    """A partition (`broker` is None) or a replica is in another state, or a replica's folder is."""

    what: str  # partition, replica or folder
    partition: int
    state: str
    broker: int | None = None
    leader: int | None = None
    isr: list[int] | None = None


class Step(msgspec.Struct, frozen=True):
    """`order` puts steps of all sources in one line: time, rank of the cause, number at its source.
    `lane` is client, store, controller or broker-<id>."""

    id: str
    order: list[int]
    at_ms: int
    lane: str
    kind: str
    topic: str | None
    title: str
    words: str
    changes: list[Change] = []


def of_notes(broker_id: int, started_ms: int, notes: Iterable[TopicNote]) -> list[Step]:
    return [_of_note(broker_id, started_ms, note) for note in notes]


def of_events(epoch: int, events: Iterable[JournalEvent]) -> list[Step]:
    """Neighbours that differ in the partition alone are one step."""
    groups = groupby(
        events, key=lambda e: (e.event, e.kind, e.topic, e.from_state, e.to_state, _by_broker(e))
    )
    return [_of_events(epoch, list(group)) for _, group in groups]


def _by_broker(event: JournalEvent) -> int | None:
    """Replicas of all brokers change together; a request or an answer is one broker's."""
    return None if event.kind == "replica" else event.broker


def _of_note(broker_id: int, started_ms: int, note: TopicNote) -> Step:
    lane, rank = f"broker-{broker_id}", _RANK_OF_BROKER
    folder = {"folder-made": "made", "folder-renamed": "set aside", "folder-removed": "removed"}
    changes: list[Change] = []
    if note.kind == "request":
        lane, rank = CLIENT, _RANK_OF_REQUEST
        title, words = f"{note.api} request", _request_words(broker_id, note)
    elif note.kind == "znodes":
        lane, rank = STORE, _RANK_OF_ZNODES
        title, words = f"{note.place} written", _znode_words(broker_id, note)
    elif note.kind in folder:
        state = folder[note.kind]
        title = f"{_partitions(note.partitions, note.count)}: folder {state}"
        words = _folder_words(broker_id, note)
        changes = [Change("folder", each, state, broker_id) for each in note.partitions]
    else:
        parts = _partitions(note.partitions, note.count)
        title = f"{note.kind} of {parts}"
        words = (
            f"Broker {broker_id} now leads {parts}: it takes records from producers and hands them "
            "to the followers."
            if note.kind == "leader"
            else f"Broker {broker_id} now follows {parts} and fetches what the leaders have."
        )
    return Step(
        f"b{broker_id}-{started_ms}-{note.sequence}",
        [note.ts_ms, rank, note.sequence],
        note.ts_ms,
        lane,
        note.kind,
        note.topic,
        title,
        words,
        changes,
    )


def _request_words(broker_id: int, note: TopicNote) -> str:
    if note.api == "auto-creation":
        return (
            f"A client named topic {note.topic}, which does not exist. Broker {broker_id} has it "
            f"created with {_count(note.count, 'partition')}."
        )
    who = note.principal or "somebody"
    client = f" (client id {note.client_id})" if note.client_id else ""
    wish = {
        "CreateTopics": f"wants topic {note.topic} with {_count(note.count, 'partition')}",
        "CreatePartitions": f"wants {_count(note.count, 'more partition')} for topic {note.topic}",
        "DeleteTopics": f"wants topic {note.topic} gone",
    }.get(note.api or "", f"wants topic {note.topic} changed")
    return (
        f"{who}{client} {wish}. Broker {broker_id}, the controller's, has checked names, numbers "
        "and configs and found them good."
    )


def _znode_words(broker_id: int, note: TopicNote) -> str:
    if note.place is not None and note.place.startswith("/admin/delete_topics"):
        return (
            f"Broker {broker_id} leaves the wish to delete {note.topic} in the store. Nothing is "
            "deleted yet: the controller watches this place."
        )
    return (
        f"Broker {broker_id} writes who gets which replica to the store. No broker has a file yet: "
        "the controller watches this place and is told that something changed."
    )


def _folder_words(broker_id: int, note: TopicNote) -> str:
    parts = _partitions(note.partitions, note.count)
    if note.kind == "folder-made":
        place = f": {note.place}" if note.count == 1 else f", {note.place} first"
        return f"Broker {broker_id} makes the log folder of {parts}{place}."
    if note.kind == "folder-renamed":
        return (
            f"Broker {broker_id} renames the folder of {parts} to {note.place}. The name is free "
            "for a new topic; the files go after file.delete.delay.ms."
        )
    return f"Broker {broker_id} removes the folder of {parts} for good."


def _of_events(epoch: int, events: list[JournalEvent]) -> Step:
    first = events[0]
    title, words = _event_words(first, events)
    return Step(
        f"c{epoch}-{first.sequence}",
        [first.ts_ms, _RANK_OF_CONTROLLER, first.sequence],
        first.ts_ms,
        CONTROLLER,
        first.kind,
        first.topic,
        title,
        words,
        list(_changes(events)),
    )


def _changes(events: list[JournalEvent]) -> Iterator[Change]:
    for event in events:
        if event.kind in ("partition", "replica") and event.partition is not None:
            if event.to_state is not None:
                broker = event.broker if event.kind == "replica" else None
                state = event.to_state
                yield Change(event.kind, event.partition, state, broker, event.leader, event.isr)
            elif event.kind == "partition":
                yield Change("partition", event.partition, "", None, event.leader, event.isr)


# (kind, to state) -> what it means.
_MEANING = {
    ("partition", "NewPartition"): (
        "The controller has heard of {parts}: who is to host is known, nobody leads yet."
    ),
    ("partition", "OnlinePartition"): (
        "There is a leader for {parts}. The controller has written who leads, and who is in sync, "
        "to the store."
    ),
    ("partition", "OfflinePartition"): "Nobody leads {parts} now: no one can write or read.",
    ("partition", "NonExistentPartition"): "The controller forgets {parts}.",
    ("replica", "NewReplica"): "Replicas of {parts} are planned; nobody was told yet.",
    ("replica", "OnlineReplica"): "Replicas of {parts} count as alive.",
    ("replica", "OfflineReplica"): (
        "Replicas of {parts} count as down: they are stopped and leave the in-sync set."
    ),
    ("replica", "ReplicaDeletionStarted"): (
        "The order to delete the replicas of {parts} goes out; the controller waits for answers."
    ),
    ("replica", "ReplicaDeletionSuccessful"): "The replicas of {parts} are deleted.",
    ("replica", "ReplicaDeletionIneligible"): (
        "Replicas of {parts} cannot be deleted now, for example because their broker is down. The "
        "deletion goes on when it is back."
    ),
    ("replica", "NonExistentReplica"): "The controller forgets the replicas of {parts}.",
    ("topic", "Created"): "The controller reads the new topic from the store and starts with it.",
    ("topic", "Deleted"): (
        "All replicas are gone. The controller removes the topic's znodes: the name is free."
    ),
    ("topic", "Vanished"): "Somebody removed the topic's znode by hand.",
    ("request", "LeaderAndIsr"): (
        "The controller tells broker {broker} which partitions it leads and which it follows."
    ),
    ("request", "UpdateMetadata"): (
        "The controller tells broker {broker} who leads what, so that it can tell clients."
    ),
    ("request", "StopReplica"): "The controller tells broker {broker} to stop replicas.",
}


def _event_words(first: JournalEvent, events: list[JournalEvent]) -> tuple[str, str]:
    numbers = list(dict.fromkeys(e.partition for e in events if e.partition is not None))
    parts = _partitions(numbers, len(numbers))
    if first.kind == "replica":
        parts += f" on {_brokers(events)}"
    meaning = _MEANING.get((first.kind, first.to_state or ""))
    words = "" if meaning is None else meaning.format(parts=parts, broker=first.broker)
    cause = f" ({first.cause})" if first.cause else ""
    if first.kind in ("partition", "replica", "illegal"):
        if first.to_state is None:
            return f"{parts}: {first.cause or first.event}", f"{first.event}: {first.cause}."
        title = f"{parts}: {first.from_state} → {first.to_state}"
        if first.kind == "illegal":
            return title, f"The controller refused this step of its own{cause}."
        return title, words or f"{title}."
    if first.kind == "request":
        return f"{first.to_state} to broker {first.broker}", (words or "A request.") + cause
    if first.kind == "answer":
        outcome = "without an error" if first.error in (None, "NONE") else f"with {first.error}"
        return (
            f"{first.to_state} answered by broker {first.broker}",
            f"Broker {first.broker} has done what {first.to_state} asked for, {outcome}.",
        )
    if first.kind == "topic":
        title = f"Topic {first.to_state.lower()}" if first.to_state else "Topic: deletion begins"
        return title, words or "The controller begins to delete the topic: its brokers go first."
    if first.kind == "broker":
        return f"Broker {first.broker}", f"Broker {first.broker}: {first.cause}."
    return first.event, f"The controller takes the event {first.event} from its queue{cause}."


def _partitions(numbers: list[int], count: int) -> str:
    if count == 1:
        return f"partition {numbers[0]}"
    if count > _NAMED:
        return f"{count:,} partitions"
    return f"partitions {', '.join(map(str, sorted(numbers)))}"


def _brokers(events: list[JournalEvent]) -> str:
    ids = sorted({event.broker for event in events if event.broker is not None})
    return f"broker{'' if len(ids) == 1 else 's'} {', '.join(map(str, ids))}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
