"""`/ottla/ended/<topic id>`: this topic's deletion was asked for and is done (ADR 28).

The controller writes it before the topic's znode goes. A broker that was away deletes a log by this
word only: a topic that is merely missing from the store may have been lost.

Version 2 is of a topic in the trash (ADR 50): its logs are set aside until `until_ms`, and the
entry has what is needed to bring it back. A broker that knows only version 1 takes that for no
evidence, and keeps the logs too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.metadata.by_topic_id import ZnodeByTopicId
from ottla.metadata.znode_values import (
    MAX_INT32,
    MAX_INT64,
    Json,
    ReplicaAssignment,
    dump,
    integers,
    load,
    number_up_to,
    read_replica_map,
    topic_name,
)

# Entries that wait for nobody: whoever has a log from before a move and was not told needs them.
MAX_SETTLED = 100


class Kept(NamedTuple):
    """What brings a topic back from the trash.

    `isrs` are those of partitions whose ISR was not all of their replicas, `leader_epoch` is the
    highest of all partitions. `undelete_as` is the name that the topic is on its way to get.
    """

    deleted_ms: int
    until_ms: int
    replicas: Mapping[int, tuple[int, ...]]
    configs: Mapping[str, str]
    leader_epoch: int
    isrs: Mapping[int, tuple[int, ...]]
    undelete_as: str | None = None

    def isr(self, partition: int) -> tuple[int, ...]:
        return self.isrs.get(partition, self.replicas[partition])

    def assignment(self) -> dict[int, ReplicaAssignment]:
        return {p: ReplicaAssignment(replicas) for p, replicas in self.replicas.items()}

    def hosts(self) -> set[int]:
        return {broker for replicas in self.replicas.values() for broker in replicas}


class EndedTopic(NamedTuple):
    """The topic's name, and brokers of Ottla's that may still have logs of it: those that were
    down, and those that keep them in the trash."""

    topic: str
    brokers: tuple[int, ...]
    kept: Kept | None = None


class StoredEntry(NamedTuple):
    """An entry as it was read: its znode's version, and the zxid that made it."""

    entry: EndedTopic
    version: int
    age: int


class EndedTopicZnode(ZnodeByTopicId):
    PARENT = "/ottla/ended"

    @staticmethod
    def encode(topic: str, brokers: Iterable[int], kept: Kept | None = None) -> bytes:
        value: Json = {"version": 1, "topic": topic, "brokers": sorted(set(brokers))}
        if kept is not None:
            value["version"] = 2
            value["deleted_ms"] = kept.deleted_ms
            value["until_ms"] = kept.until_ms
            value["partitions"] = _written(kept.replicas)
            value["config"] = dict(kept.configs)
            value["leader_epoch"] = kept.leader_epoch
            value["isr"] = _written(kept.isrs)
            if kept.undelete_as is not None:
                value["undelete_as"] = kept.undelete_as
        return dump(value)

    @classmethod
    def encode_entry(cls, entry: EndedTopic) -> bytes:
        return cls.encode(entry.topic, entry.brokers, entry.kept)

    @staticmethod
    def decode(data: bytes | None) -> EndedTopic | None:
        """None for garbage, which is no evidence of anything. A name or a number that fits no path
        and no request is garbage too: whoever reads the entry goes by it."""
        value = load(data) or {}
        topic, brokers = topic_name(value.get("topic")), integers(value.get("brokers"))
        if topic is None or brokers is None or not _are_ids(brokers):
            return None
        match value.get("version"):
            case 1:
                return EndedTopic(topic, brokers)
            case 2:
                kept = _read_kept(value)
                return None if kept is None else EndedTopic(topic, brokers, kept)
        return None


def _written(replicas: Mapping[int, tuple[int, ...]]) -> Json:
    return {str(partition): list(ids) for partition, ids in sorted(replicas.items())}


def _are_ids(numbers: Iterable[int]) -> bool:
    return all(number_up_to(number, MAX_INT32) is not None for number in numbers)


def _read_kept(value: Json) -> Kept | None:
    deleted_ms, until_ms = (
        number_up_to(value.get(key), MAX_INT64) for key in ("deleted_ms", "until_ms")
    )
    # The election that follows an undeletion raises it.
    leader_epoch = number_up_to(value.get("leader_epoch"), MAX_INT32 - 1)
    replicas, isrs = (read_replica_map(value.get(key)) for key in ("partitions", "isr"))
    configs, undelete_as = value.get("config"), value.get("undelete_as")
    if deleted_ms is None or until_ms is None or leader_epoch is None:
        return None
    if not replicas or not isinstance(configs, dict) or not isrs.keys() <= replicas.keys():
        return None
    if not _are_ids(replicas) or not all(map(_are_ids, (*replicas.values(), *isrs.values()))):
        return None
    if undelete_as is not None and topic_name(undelete_as) is None:
        return None
    texts = {key: text for key, text in configs.items() if isinstance(text, str)}
    try:
        dump(texts)
    except UnicodeEncodeError:  # half a character, which cannot be written again
        return None
    return Kept(deleted_ms, until_ms, replicas, texts, leader_epoch, isrs, undelete_as)
