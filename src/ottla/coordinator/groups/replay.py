"""Rebuilds the groups of one `__consumer_offsets` partition from its records, in log order."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ottla.coordinator.groups.group import Group, GroupSettings
from ottla.coordinator.groups.offset_table import OffsetTable
from ottla.coordinator.groups.records import (
    GroupKey,
    GroupValue,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from ottla.coordinator.versioned import RecordFormatError
from ottla.runtime import Clock
from ottla.wire import records

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False, repr=False)
class Replay:
    """Feed it whole batches with `absorb`, then take the `entries`."""

    clock: Clock
    settings: GroupSettings
    _values: dict[str, GroupValue] = field(default_factory=dict)
    _offsets: dict[str, OffsetTable] = field(default_factory=dict)

    def absorb(self, data: memoryview) -> int | None:
        """Takes over the whole batches at the front of `data` (a cut one at the end is left for
        the next read); the offset after them, None where there was no whole batch."""
        next_offset = None
        for header, batch in records.iter_batches(data):
            if header.is_control:
                # Compaction leaves a marker without its record where that alone tells the epoch of
                # a producer: nothing of the transaction is in the log any more.
                if header.record_count:
                    self._end_transaction(header.producer_id, records.parse_marker(batch))
            else:
                self._absorb_batch(header, batch)
            next_offset = header.next_offset
        return next_offset

    def _absorb_batch(self, header: records.BatchHeader, batch: memoryview) -> None:
        for record in records.iter_records(batch):
            if record.key is None:
                continue
            try:
                if header.is_transactional:
                    self._stage(header.producer_id, record.key, record.value)
                else:
                    self._apply(record.key, record.value)
            except RecordFormatError as error:
                # One foreign record must not keep every other group from its offsets.
                logger.error("The record at offset %d is skipped: %s", record.offset, error)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        decoded = decode_key(key)
        if isinstance(decoded, OffsetKey):
            table = self._offsets.setdefault(decoded.group_id, OffsetTable())
            if value is None:
                table.remove((decoded.partition,))
            else:
                table.restore(decoded.partition, decode_offset_value(value))
        elif isinstance(decoded, GroupKey):
            if value is None:
                self._values.pop(decoded.group_id, None)
            else:
                self._values[decoded.group_id] = decode_group_value(value)

    def _stage(self, producer_id: int, key: bytes, value: bytes | None) -> None:
        decoded = decode_key(key)
        if isinstance(decoded, OffsetKey) and value is not None:
            table = self._offsets.setdefault(decoded.group_id, OffsetTable())
            table.stage(producer_id, decoded.partition, decode_offset_value(value))

    def _end_transaction(self, producer_id: int, marker: records.Marker) -> None:
        if marker.is_commit or marker.is_abort:
            for table in self._offsets.values():
                table.end_transaction(producer_id, committed=marker.is_commit)

    def entries(self) -> dict[str, Group]:
        """Stored groups with their offsets; offsets without a group make a simple, empty one."""
        clock, settings = self.clock, self.settings
        found = {
            group_id: Group.from_value(group_id, value, clock, settings)
            for group_id, value in self._values.items()
        }
        for group_id, table in self._offsets.items():
            if table.is_empty:
                continue
            group = found.setdefault(group_id, Group(group_id, clock, settings))
            group.offsets = table
        return found
