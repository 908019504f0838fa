"""A consumer group that keeps a stream's position, so that `ottla resize` carries it over.

A resize knows where the records of the old topic are in the new one for as long as it runs, and
moves what groups have committed. The stream commits, before it plans a micro-batch, where all
earlier ones have ended: never more than is done. When its topic is another one it goes on where the
group stands there; what a micro-batch under way had read by then is read again.

Every commit has the topic's id beside it. One that was under way while the topic changed hands is
known by that, and refused: its number means another record in the new topic. For the same reason a
commit is never tried again without another look at the topic.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.client.admin.groups import GroupAdmin
from ottla.client.cluster import RETRIABLE
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.errors import SourceError, TopicRecreated
from ottla.spark.kafka import KafkaClient, TopicNow
from ottla.spark.source import offsets as o
from ottla.types import TopicPartition

logger = logging.getLogger("ottla.spark")

_MARK = "ottla-stream "
_MAY_PASS = RETRIABLE | {ErrorCode.REQUEST_TIMED_OUT}
_HAS_MEMBERS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
# Offsets of a group without members expire, after a week where nobody said otherwise.
_AGAIN_AFTER_S = 3600.0
# A fence stands for a minute at most (ADR 53).
_PATIENCE_S = 60.0
_CARRIED_AFTER_S = 30.0
_PAUSE_S = 0.2


class KeptGroup:
    """Of one query; nobody else may commit to it."""

    def __init__(self, client: KafkaClient, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._groups = GroupAdmin(client.cluster, timeout_ms=client.connect.timeout_ms)
        self._kept: o.Offsets | None = None
        self._kept_s = float("-inf")
        self._refused_s = float("inf")
        self._is_found = False

    def lacks(self, done: o.Offsets) -> bool:
        """Whether these should be kept now."""
        return done != self._kept or self._client.now_s() - self._kept_s > _AGAIN_AFTER_S

    def find(self) -> None:
        """Before the first commit, which has no patience: raises where the group is not ours."""
        if not self._is_found:
            self._client.run(self._groups.committed(self._group_id))
            self._is_found = True

    def is_overdue(self) -> bool:
        """Whether positions could not be kept for longer than a fence stands."""
        return self._client.now_s() - self._refused_s > _PATIENCE_S

    def keep(self, done: o.Offsets, topics: dict[str, TopicNow]) -> bool:
        """`topics` have just been looked at: others than those of the offsets are left out. False
        where that has to be tried again later."""
        by_id: dict[str, dict[TopicPartition, int]] = {}
        for partition, offset in o.iter_partitions(done):
            topic_id = done[partition.topic].topic_id
            now = topics.get(partition.topic)
            if now is not None and topic_id and topic_id == now.topic_id:
                by_id.setdefault(topic_id, {})[partition] = offset
        for topic_id, offsets in by_id.items():
            if not self._commit(offsets, _MARK + topic_id):
                self._refused_s = min(self._refused_s, self._client.now_s())
                return False
        self._refused_s = float("inf")
        self._kept, self._kept_s = done, self._client.now_s()
        return True

    def _commit(self, offsets: dict[TopicPartition, int], metadata: str) -> bool:
        sent = self._groups.commit_offsets(self._group_id, offsets, metadata=metadata, once=True)
        try:
            self._client.run(sent)
        except SourceError as error:
            cause = error.__cause__
            if isinstance(cause, KafkaError) and cause.code in _HAS_MEMBERS:
                raise SourceError(
                    f"group {self._group_id} has members: kafka.group.id with onTopicRecreated="
                    "continue names a group that only this query uses"
                ) from error
            if isinstance(cause, KafkaError) and cause.code not in _MAY_PASS:
                raise
            logger.info("group %s: the position is kept later: %s", self._group_id, error)
            return False
        return True

    def positions(self, topic: str, now: TopicNow, was: str) -> o.TopicOffsets:
        """Where the group stands in a topic that is not the one of the id `was` any more. Raises
        TopicRecreated where that is not known."""
        found = self._client.run(carried_to(self._client, self._group_id, topic, now, was))
        logger.warning(
            "topic %s is another one (%s, was %s): the query goes on where group %s stands",
            topic,
            now.topic_id,
            was,
            self._group_id,
        )
        return o.TopicOffsets(now.topic_id, found, was)


async def carried_to(
    client: KafkaClient, group_id: str, topic: str, now: TopicNow, was: str
) -> dict[int, int]:
    """The positions of a group in a topic that has another id than before. The new id is to be seen
    a moment before all groups are carried over: raises TopicRecreated when that is not it."""
    groups = GroupAdmin(client.cluster, timeout_ms=client.connect.timeout_ms)
    until_s = client.now_s() + min(_CARRIED_AFTER_S, client.connect.timeout_ms / 1000)
    while True:
        committed = await groups.committed(group_id)
        found = {
            tp.partition: at
            for tp, at in committed.items()
            if tp.topic == topic and tp.partition in now.partitions
        }
        marks = {one.metadata for one in found.values() if one.metadata.startswith(_MARK)}
        is_old = bool(marks - {_MARK + now.topic_id})
        if found and not is_old:
            return {partition: at.offset for partition, at in found.items()}
        if not found or client.now_s() >= until_s:
            break
        await asyncio.sleep(_PAUSE_S)
    why = f"what group {group_id} has are positions in the old one"
    if not found:
        why = f"group {group_id} has no positions in the new one"
    raise TopicRecreated(
        f"topic {topic} is another one: its id is {now.topic_id}, the query was reading {was}. It "
        f"cannot go on where it was: {why}; onTopicRecreated=restart reads the topic from its "
        "beginning"
    )
