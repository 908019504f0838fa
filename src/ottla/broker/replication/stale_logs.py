"""Deletes logs of topics that ended, or were made again, while this broker was away (ADR 13).

The controller does not wait for a dead Ottla broker to delete a topic: this is the other half of
that bargain. It runs before and after the broker registers, when a LeaderAndIsr names another topic
id than a log has, and when a controller speaks to this life of the broker for the first time: what
that controller left to a dead broker ended before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import (
    DeleteTopicZnode,
    TopicAssignment,
    TopicsZnode,
    TopicZnode,
)
from ottla.types import ZERO_TOPIC_ID, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId

logger = logging.getLogger(__name__)

_READS_IN_FLIGHT = 1_000


class StaleLogs:
    """Compares the logs of a broker with what the store says of their topics."""

    def __init__(self, store: MetadataStore, replicas: ReplicaManager) -> None:
        self._store = store
        self._replicas = replicas

    async def delete(self, only: Collection[str] | None = None) -> frozenset[str]:
        """Of all topics, or of those in `only`.

        Returns topics whose logs have an id and whose znode has none: written by hand, they get
        theirs from the controller, and then it shows whose the logs are.
        """
        log_manager = self._replicas.log_manager
        logs = {log.tp: log for log in log_manager.logs() if only is None or log.tp.topic in only}
        topics = sorted({tp.topic for tp in logs})
        ids: dict[str, TopicId | None] = {}
        for start in range(0, len(topics), _READS_IN_FLIGHT):
            names = topics[start : start + _READS_IN_FLIGHT]
            found = await asyncio.gather(*(_topic_id(self._store, name) for name in names))
            ids.update(item for item in found if item is not None)
        # A log that was made while the store was asked belongs to a topic of now.
        stale = [tp for tp in log_manager.stale_logs(ids) if log_manager.get(tp) is logs.get(tp)]
        self._delete(stale)
        return frozenset(
            tp.topic
            for tp, log in logs.items()
            if log.topic_id != ZERO_TOPIC_ID and ids.get(tp.topic, log.topic_id) is None
        )

    async def forget_ended_topics(self) -> None:
        """Drops from the metadata cache, and from disk, topics whose end nobody told this broker.

        One read: names are enough, as a topic made again is told by its new id.
        """
        cache, log_manager = self._replicas.metadata_cache, self._replicas.log_manager
        logs, lives = {log.tp: log for log in log_manager.logs()}, cache.lives()
        names = frozenset(await self._store.children(TopicsZnode.path()))
        now = cache.lives()
        cache.forget(
            [name for name, life in lives.items() if name not in names and now.get(name) is life]
        )
        gone = log_manager.stale_logs({tp.topic: None for tp in logs if tp.topic in names})
        self._delete([tp for tp in gone if log_manager.get(tp) is logs.get(tp)])

    def strays(self, *, all_told: bool) -> list[TopicPartition]:
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

    async def delete_strays(self, suspects: Collection[TopicPartition]) -> None:
        """Deletes those of the suspects that are strays by the store's word too."""
        log_manager = self._replicas.log_manager
        logs = {tp: log for tp in suspects if (log := log_manager.get(tp)) is not None}
        names = sorted({tp.topic for tp in logs})
        topics = dict(
            zip(names, await asyncio.gather(*(_topic(self._store, n) for n in names)), strict=True)
        )
        cache = self._replicas.metadata_cache
        unheard_of = [name for name in names if name not in cache.lives()]
        marks = await asyncio.gather(
            *(self._store.exists(DeleteTopicZnode.path(n)) for n in unheard_of)
        )
        dying = {name for name, mark in zip(unheard_of, marks, strict=True) if mark is not None}
        for tp, suspect in logs.items():
            topic = topics[tp.topic]
            if log_manager.get(tp) is not suspect:
                continue
            if topic is None:
                # Deleted meanwhile; the controller asks only brokers that have replicas of it.
                self._delete([tp])
            elif topic.topic_id is None:
                continue
            elif _differ(suspect.topic_id, topic.topic_id):
                self._delete([tp])
            elif (
                tp.partition in topic.partitions
                and self._replicas.broker_id not in topic.partitions[tp.partition].replicas
                and (cache.contains(tp) or tp.topic in dying)
            ):
                self._delete([tp], "its partition was moved to other brokers")

    def _delete(
        self,
        stale: list[TopicPartition],
        reason: str = "its topic is gone or another one by now",
    ) -> None:
        for tp in stale:
            logger.info("the log of %s is deleted: %s", tp, reason)
            self._replicas.delete(tp)


def _differ(one: TopicId, other: TopicId) -> bool:
    return ZERO_TOPIC_ID not in (one, other) and one != other


async def _topic_id(store: MetadataStore, topic: str) -> tuple[str, TopicId | None] | None:
    """The topic with its id (None where its znode tells none); None where there is no topic."""
    found = await _topic(store, topic)
    return None if found is None else (topic, found.topic_id)


async def _topic(store: MetadataStore, topic: str) -> TopicAssignment | None:
    try:
        data, _ = await store.get(TopicZnode.path(topic))
    except NoNodeError:
        return None
    return TopicZnode.decode(data)
