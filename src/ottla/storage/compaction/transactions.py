"""Which batches of transactions compaction may drop (CleanedTransactionMetadata): pure.

Fed with the aborted transactions of the log and with every batch in order. Aborted data goes;
a marker goes only when no batch of its transaction is left before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.wire import records
from ottla.wire.primitives import Buffer
from ottla.wire.records import BatchHeader


class CleanedTransactions:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        # By first offset, the lowest last: transactions that later batches may belong to.
        self._upcoming = sorted(aborted, key=lambda found: found.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_data: set[int] = set()
        self._committed: set[int] = set()
        # Entries for the index of the segment that is being written.
        self.index: list[AbortedTransaction] = []

    def _reach(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            found = self._upcoming.pop()
            self._aborted.setdefault(found.producer_id, found)

    def drops_data(self, header: BatchHeader) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def drops_marker(self, header: BatchHeader, batch: Buffer) -> bool:
        """Whether a control batch has nothing left to say (past the delete horizon it may go)."""
        self._reach(header.last_offset)
        if header.record_count == 0:
            return True  # emptied by an earlier pass
        marker = records.parse_marker(batch)
        producer_id = header.producer_id
        if marker.is_abort:
            found = self._aborted.pop(producer_id, None)
            if found is None or producer_id not in self._with_data:
                return True
            self._with_data.discard(producer_id)
            self.index.append(found)
            return False
        if marker.is_commit:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        return False
