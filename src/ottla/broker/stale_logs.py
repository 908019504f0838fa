"""Deletes logs of topics that ended, or were made again, while this broker was away (ADR 13).

The controller does not wait for a dead Ottla broker to delete a topic: this is the other half of
that bargain. It runs after the broker has registered (from then on the controller asks it to delete
what it hosts) and before it serves.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import TopicZnode

if TYPE_CHECKING:
    from ottla.broker.replica_manager import ReplicaManager
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId, TopicPartition

log = logging.getLogger(__name__)

_READS_IN_FLIGHT = 1_000


async def delete_stale_logs(
    store: MetadataStore, replica_manager: ReplicaManager
) -> list[TopicPartition]:
    """Returns the partitions whose logs went."""
    log_manager = replica_manager.log_manager
    topics = sorted({log.tp.topic for log in log_manager.logs()})
    ids: dict[str, TopicId | None] = {}
    for start in range(0, len(topics), _READS_IN_FLIGHT):
        names = topics[start : start + _READS_IN_FLIGHT]
        found = await asyncio.gather(*(_topic_id(store, name) for name in names))
        ids.update(item for item in found if item is not None)
    stale = log_manager.stale_logs(ids)
    for tp in stale:
        log.info("the log of %s is deleted: its topic is gone or another one by now", tp)
        replica_manager.stop_fetching([tp])
        replica_manager.drop(tp, delete_log=True)
        replica_manager.notify_resigned(tp, None)
    return stale


async def _topic_id(store: MetadataStore, topic: str) -> tuple[str, TopicId | None] | None:
    """The topic with its id (None where its znode tells none); None where there is no topic."""
    try:
        data, _ = await store.get(TopicZnode.path(topic))
    except NoNodeError:
        return None
    return topic, TopicZnode.decode(data).topic_id
