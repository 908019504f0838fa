"""Finds logs of topics that ended, moved or got lost while this broker was away (ADR 13, 28).

The controller does not wait for a dead Ottla broker to delete a topic: this is the other half of
that bargain. A log goes if its topic's id stands in `/ottla/ended`, or if the topic's own znode
places it elsewhere. Whatever else has no topic is a stray: it stays, and is told of.

It runs before and after the broker registers, when the controller orders something for a name whose
log has another topic id, and when a controller speaks to this life of the broker for the first
time: what that controller left to a dead broker ended before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.replication.log_verdicts import Verdict, has_moved_away, judge
from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.store import BadVersionError, NoNodeError, StoreError
from ottla.metadata.znodes import (
    DeleteTopicZnode,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartitionStateZnode,
    TopicsZnode,
    TopicZnode,
)
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition, format_topic_id

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore
    from ottla.storage.log.log import Log

logger = logging.getLogger(__name__)

_READS_IN_FLIGHT = 1_000
# Brokers that return together strike themselves off the same entry.
_STRIKE_ATTEMPTS = 100
_NAMES_IN_A_LINE = 5
# Shorter than a controller waits for an answer.
_SPARE_ATTEMPTS = 20
_SPARE_PAUSE_S = 0.5

K = TypeVar("K")
V = TypeVar("V")


class StaleLogs:
    """Compares the logs of a broker with what the store says of their topics."""

    def __init__(self, store: MetadataStore, replicas: ReplicaManager) -> None:
        self._store = store
        self._replicas = replicas

    async def settle(
        self, only: Collection[str] | None = None, *, free_names: bool = False
    ) -> frozenset[str]:
        """Of all topics, or of those in `only`: what ended goes, strays are marked as such. A stray
        is set aside where a topic of now needs its name here; with `free_names` in any case.

        Returns topics whose logs have an id and whose znode has none: written by hand, they get
        theirs from the controller, and then it shows whose the logs are.
        """
        log_manager = self._replicas.log_manager
        logs = {log.tp: log for log in log_manager.logs() if only is None or log.tp.topic in only}
        # In this order: see `judge`.
        topics = await _gather(sorted({tp.topic for tp in logs}), self._topic)
        ended = await self._ended_topics()
        for tp, log in logs.items():
            topic = topics[tp.topic]
            # A log that was made while the store was asked belongs to a topic of now.
            if log_manager.get(tp) is not log:
                continue
            verdict = judge(log, topic, ended)
            log.is_stray = verdict is Verdict.STRAY
            if verdict is Verdict.ENDED:
                self._delete(tp, "its topic was deleted")
            elif verdict is Verdict.STRAY and topic is not None:
                await self._make_room(log, topic, free_name=free_names)
        await log_manager.removals.make_durable()
        await self._confirm(ended)
        return frozenset(
            tp.topic
            for tp, log in logs.items()
            if log.topic_id != ZERO_TOPIC_ID
            and (topic := topics[tp.topic]) is not None
            and topic.topic_id is None
        )

    async def spare_other_lives(self, topics: Collection[str]) -> None:
        """Before logs are deleted by their names: those that have another topic id than the topic
        of now are taken out of the way. Raises StoreError where that cannot be found out."""
        for attempt in range(_SPARE_ATTEMPTS):
            try:
                found = await _gather(sorted(topics), self._topic)
                other = {
                    log.tp.topic
                    for log in self._replicas.log_manager.logs()
                    if (topic := found.get(log.tp.topic)) is not None
                    and _differ(log.topic_id, topic.topic_id or ZERO_TOPIC_ID)
                }
                if other:
                    await self.settle(other, free_names=True)
                return
            except StoreError:
                if attempt == _SPARE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_SPARE_PAUSE_S)

    def tell_strays(self) -> None:
        """One line, for whoever starts this broker."""
        log_manager = self._replicas.log_manager
        names = [str(log.folder) for log in log_manager.logs() if log.is_stray]
        names += map(str, log_manager.strays.folders)
        if names:
            shown = ", ".join(sorted(names)[:_NAMES_IN_A_LINE])
            more = f" and {len(names) - _NAMES_IN_A_LINE} more" * (len(names) > _NAMES_IN_A_LINE)
            logger.warning(
                "logs that no topic owns are kept (ottla log-dirs --strays): %s%s",
                shown,
                more,
            )

    async def forget_ended_topics(self) -> None:
        """Drops topics from the metadata cache that the store does not know any more, and from disk
        those that ended without a word to this broker."""
        cache, log_manager = self._replicas.metadata_cache, self._replicas.log_manager
        lives = cache.lives()
        names = frozenset(await self._store.children(TopicsZnode.path()))
        now = cache.lives()
        cache.forget(
            [name for name, life in lives.items() if name not in names and now.get(name) is life]
        )
        ended = await self._ended_topics()
        await self.settle(
            {
                log.tp.topic
                for log in log_manager.logs()
                if log.tp.topic not in names or log.topic_id in ended
            }
        )

    def suspects(self, *, all_told: bool) -> list[TopicPartition]:
        """Logs that are not this broker's any more, by the controller's word.

        The topic was made again, or the partition was moved away, while this broker was down or
        before a controller that died could say so. Apache Kafka has deleted such logs since 3.x
        too. Of a topic that is being deleted the controller tells only where it has replicas: a log
        of which it says nothing at all (`all_told`: it has named topics) may be left from before a
        move.
        """
        cache, own_id = self._replicas.metadata_cache, self._replicas.broker_id
        found = []
        for log in self._replicas.log_manager.logs():
            state = cache.partition_state(log.tp)
            # A list edited by hand leaves the leader where it was, and there are the records. A
            # move takes a replica out of the ISR before it takes it out of the list.
            moved = state is not None and own_id not in (*state.replicas, *state.isr, state.leader)
            is_unheard_of = (
                all_told and state is None and self._replicas.partitions.get(log.tp) is None
            )
            if moved or is_unheard_of or _differ(log.topic_id, cache.topic_id(log.tp.topic)):
                found.append(log.tp)
        return found

    async def settle_suspects(self, suspects: Collection[TopicPartition]) -> None:
        """Deletes those of the suspects that moved away by the store's word too; of the others
        `settle` knows what to do."""
        log_manager, cache = self._replicas.log_manager, self._replicas.metadata_cache
        logs = {tp: log for tp in suspects if (log := log_manager.get(tp)) is not None}
        names = sorted({tp.topic for tp in logs})
        topics = await _gather(names, self._topic)
        states = await _gather(list(logs), self._state)
        unheard_of = [name for name in names if name not in cache.lives()]
        marks = await _gather(unheard_of, self._is_being_deleted)
        rest = set()
        for tp, log in logs.items():
            topic, dying = topics[tp.topic], marks.get(tp.topic, False)
            if log_manager.get(tp) is not log:
                continue
            if (cache.contains(tp) or dying) and topic is not None:
                own_id = self._replicas.broker_id
                if has_moved_away(log, own_id, topic, states[tp], is_being_deleted=dying):
                    self._delete(tp, "its partition was moved to other brokers")
                    continue
            if topic is None or _differ(log.topic_id, topic.topic_id or ZERO_TOPIC_ID):
                rest.add(tp.topic)
        await log_manager.removals.make_durable()
        if rest:
            await self.settle(rest)

    # --- doing ------------------------------------------------------------------------------

    def _delete(self, tp: TopicPartition, reason: str) -> None:
        logger.info("the log of %s is deleted: %s", tp, reason)
        self._replicas.delete(tp)

    async def _make_room(self, log: Log, topic: TopicAssignment, *, free_name: bool) -> None:
        """Where another topic has the name nobody may take this log for that one's; where it needs
        the name here, or may (`free_name`), the log gets another one."""
        if topic.topic_id in (None, log.topic_id):
            return
        assignment = topic.partitions.get(log.tp.partition)
        is_here = assignment is not None and self._replicas.broker_id in assignment.replicas
        if free_name or is_here:
            await self._replicas.set_aside(log.tp)
        else:
            self._replicas.stop_hosting(log.tp)

    async def _confirm(self, ended: dict[TopicId, EndedTopic]) -> None:
        """Strikes this broker off the entries of topics of which it has no log any more. What is in
        a folder that failed is not known."""
        log_manager, own_id = self._replicas.log_manager, self._replicas.broker_id
        if log_manager.dirs.offline():
            return
        left = {log.topic_id for log in log_manager.logs()}
        left.update(copy.topic_id for copy in log_manager.futures().values())
        done = [i for i, entry in ended.items() if own_id in entry.brokers and i not in left]
        await _gather(done, self._strike_off)

    async def _strike_off(self, topic_id: TopicId) -> None:
        """The last one removes the entry."""
        path = EndedTopicZnode.path(topic_id)
        for _ in range(_STRIKE_ATTEMPTS):
            try:
                data, stat = await self._store.get(path)
                entry = EndedTopicZnode.decode(data)
                if entry is None or self._replicas.broker_id not in entry.brokers:
                    return
                others = [b for b in entry.brokers if b != self._replicas.broker_id]
                if others:
                    value = EndedTopicZnode.encode(entry.topic, others)
                    await self._store.set(path, value, stat.version)
                else:
                    await self._store.delete(path, stat.version)
                return
            except BadVersionError:
                continue  # another broker was quicker
            except NoNodeError:
                return
        logger.warning("%s is changed by others again and again", format_topic_id(topic_id))

    # --- asking -----------------------------------------------------------------------------

    async def _ended_topics(self) -> dict[TopicId, EndedTopic]:
        try:
            names = await self._store.children(EndedTopicZnode.parent())
        except NoNodeError:
            return {}
        ids = [found for found in map(EndedTopicZnode.topic_id, names) if found is not None]
        read = await _gather(ids, self._ended_topic)
        return {topic_id: entry for topic_id, entry in read.items() if entry is not None}

    async def _ended_topic(self, topic_id: TopicId) -> EndedTopic | None:
        data = await self._data(EndedTopicZnode.path(topic_id))
        return None if data is None else EndedTopicZnode.decode(data)

    async def _topic(self, topic: str) -> TopicAssignment | None:
        try:
            data, _ = await self._store.get(TopicZnode.path(topic))
        except NoNodeError:
            return None
        return TopicZnode.decode(data)

    async def _state(self, tp: TopicPartition) -> LeaderAndIsr | None:
        try:
            return TopicPartitionStateZnode.decode(
                *await self._store.get(TopicPartitionStateZnode.path(tp))
            )
        except NoNodeError:
            return None

    async def _is_being_deleted(self, topic: str) -> bool:
        return await self._store.exists(DeleteTopicZnode.path(topic)) is not None

    async def _data(self, path: str) -> bytes | None:
        try:
            return (await self._store.get(path))[0]
        except NoNodeError:
            return None


def _differ(one: TopicId, other: TopicId) -> bool:
    return ZERO_TOPIC_ID not in (one, other) and one != other


async def _gather(keys: Iterable[K], ask: Callable[[K], Awaitable[V]]) -> dict[K, V]:
    """Pipelined, a bounded number at a time."""
    listed = list(keys)
    found: dict[K, V] = {}
    for start in range(0, len(listed), _READS_IN_FLIGHT):
        some = listed[start : start + _READS_IN_FLIGHT]
        found.update(zip(some, await asyncio.gather(*map(ask, some)), strict=True))
    return found
