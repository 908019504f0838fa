"""Topics that no transaction may begin to write to, because they are being renamed (ADR 51).

A fence stands as long as the rename's entry in the store: the entry is there before the controller
asks for the fence, and goes after the old name has gone from this broker's metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.admin.fence_watches import FenceWatches, moment_for
from ottla.errors import ErrorCode
from ottla.metadata.renames import RenameZnode

if TYPE_CHECKING:
    from ottla.coordinator.groups.coordinator import GroupCoordinator
    from ottla.coordinator.transactions.coordinator import TransactionCoordinator
    from ottla.metadata.store import MetadataStore
    from ottla.types import TopicId

_REASON = "rename"


class RenameFences:
    """One per broker; the coordinators look at the names that stand here."""

    def __init__(
        self,
        store: MetadataStore,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self._groups = groups
        self._transactions = transactions
        self._watches = FenceWatches(store, RenameZnode.path, lambda entry: True, self.lift)

    async def raise_for(self, topic: str, target: str, topic_id: TopicId) -> int | ErrorCode:
        """From now on no transaction takes the topic on; how many have it still, once they had a
        moment to end. `target` is the name that it is to have."""
        self._transactions.fenced_topics.add(topic, _REASON)
        self._groups.in_transactions.fenced_topics.add(topic, _REASON)
        self._expect(topic, target, topic_id)
        await moment_for(lambda: self._open_on(topic) == 0)
        return self._open_on(topic)

    def begin_carrying(self, topic: str, target: str, topic_id: TopicId) -> None:
        """The old name is gone from the metadata: nobody can take it into a transaction now. A
        broker that came since the fence hears of the rename here."""
        self._expect(topic, target, topic_id)
        self._let_transactions(topic)

    def lift(self, topic: str) -> None:
        self._watches.note_order()
        self._let_transactions(topic)
        self._groups.uncarried.forget(topic)
        self._watches.end(topic)

    async def patience(self, partitions: list[int]) -> None:
        """Waits a moment for partitions of `__consumer_offsets` that are being loaded."""
        await moment_for(lambda: not self._groups.registry.lacks(partitions))

    async def close(self) -> None:
        await self._watches.close()

    def _expect(self, topic: str, target: str, topic_id: TopicId) -> None:
        self._watches.begin(topic, topic_id)
        self._groups.uncarried.expect(topic, source=topic, target=target)

    def _let_transactions(self, topic: str) -> None:
        self._transactions.fenced_topics.discard(topic, _REASON)
        self._groups.in_transactions.fenced_topics.discard(topic, _REASON)

    def _open_on(self, topic: str) -> int | ErrorCode:
        in_transactions = self._transactions.open_on(topic)
        in_groups = self._groups.in_transactions.open_on(topic)
        for found in (in_transactions, in_groups):
            if isinstance(found, ErrorCode):
                return found
        return int(in_transactions) + int(in_groups)
