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
from ottla.metadata.znodes import TopicsZnode, TopicZnode

if TYPE_CHECKING:
    from ottla.broker.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId, TopicPartition

log = logging.getLogger(__name__)

_READS_IN_FLIGHT = 1_000


async def delete_stale_logs(
    store: MetadataStore, replica_manager: ReplicaManager, only: Collection[str] | None = None
) -> list[TopicPartition]:
    """Of all topics, or of those in `only`; returns the partitions whose logs went."""
    log_manager = replica_manager.log_manager
    logs = {log.tp: log for log in log_manager.logs() if only is None or log.tp.topic in only}
    topics = sorted({tp.topic for tp in logs})
    ids: dict[str, TopicId | None] = {}
    for start in range(0, len(topics), _READS_IN_FLIGHT):
        names = topics[start : start + _READS_IN_FLIGHT]
        found = await asyncio.gather(*(_topic_id(store, name) for name in names))
        ids.update(item for item in found if item is not None)
    # A log that was made while the store was asked belongs to a topic of now.
    stale = [tp for tp in log_manager.stale_logs(ids) if log_manager.get(tp) is logs.get(tp)]
    _delete(replica_manager, stale)
    return stale


async def forget_ended_topics(store: MetadataStore, replica_manager: ReplicaManager) -> None:
    """Drops from the metadata cache, and from disk, topics whose end nobody told this broker of.

    One read: names are enough, as a topic made again is told by its new id.
    """
    cache, log_manager = replica_manager.metadata_cache, replica_manager.log_manager
    logs, lives = {log.tp: log for log in log_manager.logs()}, cache.lives()
    names = frozenset(await store.children(TopicsZnode.path()))
    now = cache.lives()
    cache.forget(
        [name for name, life in lives.items() if name not in names and now.get(name) is life]
    )
    gone = log_manager.stale_logs({tp.topic: None for tp in logs if tp.topic in names})
    _delete(replica_manager, [tp for tp in gone if log_manager.get(tp) is logs.get(tp)])


def _delete(replica_manager: ReplicaManager, stale: list[TopicPartition]) -> None:
    for tp in stale:
        log.info("the log of %s is deleted: its topic is gone or another one by now", tp)
        replica_manager.stop_fetching([tp])
        replica_manager.drop(tp, delete_log=True)
        replica_manager.notify_resigned(tp, None)


async def _topic_id(store: MetadataStore, topic: str) -> tuple[str, TopicId | None] | None:
    """The topic with its id (None where its znode tells none); None where there is no topic."""
    try:
        data, _ = await store.get(TopicZnode.path(topic))
    except NoNodeError:
        return None
    return topic, TopicZnode.decode(data).topic_id
