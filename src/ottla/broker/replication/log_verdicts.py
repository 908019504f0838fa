"""Whose a log is, by what the store says (ADR 28). Nothing is asked or done here."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ottla.metadata.ended import EndedTopic
from ottla.metadata.znodes import LeaderAndIsr, TopicAssignment
from ottla.storage.log.log import Log
from ottla.types import ZERO_TOPIC_ID, TopicId


class Verdict(Enum):
    # Of a topic of now, as far as can be told.
    OURS = "ours"
    # Its topic was deleted, or there is nothing in it.
    ENDED = "ended"
    # Its topic was deleted and may be wanted back (ADR 50).
    KEPT = "kept"
    # Nobody asked for its end, and no topic of now has its id: it is kept.
    STRAY = "stray"


def judge(log: Log, topic: TopicAssignment | None, ended: Mapping[TopicId, EndedTopic]) -> Verdict:
    """`topic` is what stands under the log's name now. It must be read before `ended`: an entry is
    written before the znode goes."""
    if log.topic_id == ZERO_TOPIC_ID:
        if topic is not None and not has_no_place(log, topic):
            return Verdict.OURS
        return Verdict.STRAY if log.end_offset else Verdict.ENDED
    if topic is not None and topic.topic_id is None:
        # Written by hand: the controller is about to give it an id.
        return Verdict.OURS
    if topic is not None and topic.topic_id == log.topic_id:
        # A deletion under way counts only once the znode is gone: it may still be called off.
        return Verdict.OURS if log.tp.partition in topic.partitions else Verdict.STRAY
    # By its id alone: the topic may have had another name when it ended (ADR 51).
    entry = ended.get(log.topic_id)
    if entry is None:
        return Verdict.STRAY
    return Verdict.ENDED if entry.kept is None else Verdict.KEPT


def has_no_place(log: Log, topic: TopicAssignment) -> bool:
    """Whether the log of a topic that nobody knows cannot be of the one that has its name now,
    which has no such partition. A topic without an id is left out: there may be orders without one
    too, by which the log was made."""
    return (
        log.topic_id == ZERO_TOPIC_ID
        and topic.topic_id is not None
        and log.tp.partition not in topic.partitions
    )


def has_moved_away(
    log: Log,
    broker_id: int,
    topic: TopicAssignment,
    state: LeaderAndIsr | None,
    *,
    is_being_deleted: bool,
) -> bool:
    """Whether the topic's own znode places the log's partition on other brokers only.

    A move ends under a later leader epoch than any record of the replica that left. Where the log
    has seen as late a one, the store is older than the log (a backup came back, or somebody wrote
    the znode again): its word on who has the records does not count.
    """
    assignment = topic.partitions.get(log.tp.partition)
    if topic.topic_id != log.topic_id or log.topic_id == ZERO_TOPIC_ID or assignment is None:
        return False
    if broker_id in assignment.replicas:
        return False
    if state is None:
        # The states go before the znode.
        return is_being_deleted
    if broker_id in (*state.isr, state.leader):
        return False
    return is_being_deleted or state.leader_epoch > log.epochs.latest
