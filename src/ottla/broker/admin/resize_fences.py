"""Topics that take no records, or give none, because they are being resized (ADR 53).

The controller raises a fence and lifts it. Where its word does not come, the entry in the store
says what holds: without one, or while records are only being copied, there is no fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.admin.fence_watches import FenceWatches, moment_for
from ottla.errors import ErrorCode
from ottla.metadata.resizes import ResizePhase, ResizeZnode

if TYPE_CHECKING:
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.coordinator.groups.coordinator import GroupCoordinator
    from ottla.coordinator.groups.switching import Switched
    from ottla.coordinator.transactions.coordinator import TransactionCoordinator
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId

_REASON = "resize"


class ResizeFences:
    """One per broker. Leaders, readers and coordinators look at the names that stand here."""

    def __init__(
        self,
        store: MetadataStore,
        partitions: HostedPartitions,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._transactions = transactions
        self._watches = FenceWatches(store, ResizeZnode.path, _stands, self.lift)

    async def fence(self, topic: str, topic_id: TopicId) -> int | ErrorCode:
        """From now on nothing is written; how much is still under way, after a moment."""
        self._fence(topic, topic_id)
        await moment_for(lambda: self._busy(topic) == 0)
        return self._busy(topic)

    def ends(self, topic: str) -> dict[int, int]:
        """Where the partitions end that this broker leads. Once nothing is under way these are
        offsets that all in-sync replicas have, and they do not move."""
        return {
            partition.tp.partition: partition.log.end_offset
            for partition in self._partitions
            if partition.tp.topic == topic and partition.is_leader and partition.log is not None
        }

    def close_topic(self, topic: str, topic_id: TopicId, shadow: str) -> None:
        """Nothing is written, and consumers read nothing."""
        self._fence(topic, topic_id)
        self._groups.uncarried.expect(topic, source=shadow, target=topic)
        self._partitions.closed_topics.add(topic)

    def open_writes(self, topic: str) -> None:
        self._watches.note_order()
        self._partitions.fenced_topics.discard(topic)
        self._transactions.fenced_topics.discard(topic, _REASON)
        self._groups.in_transactions.fenced_topics.discard(topic, _REASON)
        self._groups.offsets.fenced_topics.discard(topic)

    def lift(self, topic: str) -> None:
        self.open_writes(topic)
        self._partitions.closed_topics.discard(topic)
        self._groups.switch.forget(topic)
        self._groups.uncarried.forget(topic)
        self._watches.end(topic)

    async def stage(
        self, topic: str, shadow: str, offsets: Mapping[str, Mapping[int, int]]
    ) -> Switched:
        self._groups.uncarried.expect(topic, source=shadow, target=topic)
        count = self._partitions.partition_count(shadow)
        return await self._groups.switch.stage(topic, shadow, count, offsets)

    async def switch(self, topic: str, shadow: str) -> Switched:
        return await self._groups.switch.switch(topic, shadow)

    async def close(self) -> None:
        await self._watches.close()

    def _fence(self, topic: str, topic_id: TopicId) -> None:
        self._partitions.fenced_topics.add(topic)
        self._transactions.fenced_topics.add(topic, _REASON)
        self._groups.in_transactions.fenced_topics.add(topic, _REASON)
        self._groups.offsets.fenced_topics.add(topic)
        if self._watches.begin(topic, topic_id):
            # What an earlier resize of that name has closed, and whose members it sent away, is
            # nothing to this one.
            self._partitions.closed_topics.discard(topic)
            self._groups.switch.forget(topic)
            self._groups.uncarried.forget(topic)

    def _busy(self, topic: str) -> int | ErrorCode:
        """Open transactions, commits on their way, and records that followers do not have yet."""
        found = self._transactions.open_on(topic)
        if isinstance(found, ErrorCode):
            return found
        if self._groups.registry.shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        unstable = 0
        for partition in self._partitions:
            log = partition.log
            if partition.tp.topic == topic and partition.is_leader and log is not None:
                unstable += log.last_stable_offset < log.end_offset
        return found + self._groups.switch.busy_with(topic) + unstable

    async def patience(self, partitions: list[int]) -> None:
        """Waits a moment for partitions of `__consumer_offsets` that are being loaded."""
        await moment_for(lambda: not self._groups.registry.lacks(partitions))


def _stands(entry: bytes | None) -> bool:
    resize = ResizeZnode.decode(entry)
    return resize is not None and resize.phase is not ResizePhase.COPYING
