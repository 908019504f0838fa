"""The log of one partition replica: segments in order, and the offsets that bound them (Log).

Everything here runs on the event loop and is quick; fsync, recovery scans and removal of files
are done elsewhere with descriptors of their own (`flushing`, `recovery`, `log_manager`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ottla.errors import ErrorCode, InvariantViolated, KafkaError
from ottla.runtime import Runtime
from ottla.storage import checkpoints
from ottla.storage.append.checks import Batch, Origin
from ottla.storage.append.leader import prepare_leader_append
from ottla.storage.append.replica import split_replicated
from ottla.storage.log import retention
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.producers.replay import replay_batch
from ottla.storage.producers.snapshots import load_producers, snapshot_offsets
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment import transaction_index
from ottla.storage.segment.file_names import LOG_SUFFIX, SNAPSHOT_SUFFIX, file_name
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.renamed_files import complete_swap, set_aside
from ottla.storage.segment.segment import (
    EMPTY,
    MAX_RELATIVE_OFFSET,
    MAX_SEGMENT_BYTES,
    Segment,
)
from ottla.storage.segment.sparse_indexes import BatchPlace
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

# Positions of the newest batch boundaries: fetches at the end of a log need no index lookup.
_RECENT_POSITIONS = 32


class AppendInfo(NamedTuple):
    """Where an append went. For a duplicate: where the first copy is."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool = False


class Log:
    __slots__ = (
        "_bases",
        "_recent",
        "_runtime",
        "_segments",
        "checkpointed_high_watermark",
        "cleaned_offset",
        "data_dir",
        "end_offset",
        "epochs",
        "folder",
        "generation",
        "high_watermark",
        "last_flush_ms",
        "on_roll",
        "on_start_moved",
        "open_files",
        "producers",
        "recovery_point",
        "settings",
        "start_offset",
        "topic_id",
        "tp",
        "unsynced",
    )

    def __init__(
        self,
        runtime: Runtime,
        open_files: OpenFiles,
        tp: TopicPartition,
        folder: Path,
        settings: LogConfig,
        *,
        topic_id: TopicId = ZERO_TOPIC_ID,
    ) -> None:
        self._runtime = runtime
        self.open_files = open_files
        self.tp = tp
        self.folder = folder
        self.data_dir = folder.parent
        self.settings = settings
        self.topic_id = topic_id
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.checkpointed_high_watermark = -1
        self.recovery_point = 0
        # Compaction came up to here (its checkpoint); -1 where it never ran.
        self.cleaned_offset = -1
        self.last_flush_ms = runtime.clock.now_ms()
        # Small files written without fsync; the next flush syncs them.
        self.unsynced: set[Path] = set()
        # Counts truncations: a flush that ran across one says nothing about the new records.
        self.generation = 0
        self.on_roll: Callable[[Log], None] | None = None
        self.on_start_moved: Callable[[], None] | None = None
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._recent: dict[int, int] = {}

    @classmethod
    def create(
        cls,
        runtime: Runtime,
        open_files: OpenFiles,
        tp: TopicPartition,
        folder: Path,
        settings: LogConfig,
        *,
        topic_id: TopicId = ZERO_TOPIC_ID,
    ) -> Log:
        """A new, empty log in a new folder."""
        runtime.disk.make_dirs(folder)
        log = cls(runtime, open_files, tp, folder, settings)
        log.add_segment(log.new_segment(0))
        if topic_id != ZERO_TOPIC_ID:
            log.assign_topic_id(topic_id)
        return log

    # --- segments ---------------------------------------------------------------------------

    @property
    def segments(self) -> list[Segment]:
        """Oldest first; the last one is active. Not to be changed by callers."""
        return self._segments

    @property
    def active(self) -> Segment:
        return self._segments[-1]

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def new_segment(self, base_offset: int) -> Segment:
        segment = Segment(
            self._runtime.disk,
            self.open_files,
            self.folder,
            base_offset,
            size=0,
            index_interval_bytes=self.settings.index_interval_bytes,
            created_ms=self._runtime.clock.now_ms(),
            sealed=False,
        )
        # Not through the segment: a partition without traffic holds no descriptor.
        self._runtime.disk.open(segment.path(LOG_SUFFIX)).close()
        return segment

    def add_segment(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._bases.append(segment.base_offset)

    def roll(self, base_offset: int | None = None) -> Segment:
        """Seals the active segment and starts one at `base_offset` (the log's end if None)."""
        base_offset = self.end_offset if base_offset is None else base_offset
        active = self.active
        if active.size == 0 and active.base_offset == base_offset:
            return active
        if base_offset <= active.base_offset:
            raise InvariantViolated(
                f"{self.tp}: a segment at {base_offset} cannot follow {active.base_offset}"
            )
        active.seal()
        # A follower's next batch may leave a gap; the snapshot belongs to the new segment's base.
        self.producers.map_end_offset = base_offset
        self.write_snapshot()
        self._recent.clear()
        segment = self.new_segment(base_offset)
        self.add_segment(segment)
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    def drop_segments(self, start: int, stop: int) -> list[Path]:
        """Takes segments out of the log; returns their renamed files, to be removed later."""
        removed: list[Path] = []
        # What a kill leaves of them joins what stays: no hole between.
        step = -1 if stop == len(self._segments) else 1
        for segment in self._segments[start:stop][::step]:
            removed += set_aside(self._runtime.disk, segment)
        self.unsynced.difference_update(path.with_suffix("") for path in removed)
        del self._segments[start:stop]
        del self._bases[start:stop]
        return removed

    def holds(self, parts: list[Segment]) -> bool:
        """Whether these very segments are in the log, side by side."""
        slot = bisect_right(self._bases, parts[0].base_offset) - 1
        return self._segments[slot : slot + len(parts)] == parts

    def replace_segments(self, parts: list[Segment], compacted: Segment) -> list[Path]:
        """Puts `compacted`, whose files end in `.swap`, in the place of sealed segments; files to
        remove later (Log.replaceSegments). The first one's snapshot stays: its offset is a base
        still."""
        if not self.holds(parts) or parts[-1] is self.active:
            raise InvariantViolated(f"{self.tp}: the segments to be replaced are not there")
        removed = set_aside(self._runtime.disk, parts[0], keep_snapshot=True)
        for segment in parts[1:]:
            removed += set_aside(self._runtime.disk, segment)
        self.unsynced.difference_update(path.with_suffix("") for path in removed)
        complete_swap(self._runtime.disk, compacted)
        slot = self._segments.index(parts[0])
        self._segments[slot : slot + len(parts)] = [compacted]
        self._bases[slot : slot + len(parts)] = [compacted.base_offset]
        return removed

    # --- append -----------------------------------------------------------------------------

    def append_as_leader(
        self, data: memoryview, leader_epoch: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Checks, assigns offsets in place and writes; raises KafkaError, OSError from the disk."""
        now_ms = self._runtime.clock.now_ms()
        plan = prepare_leader_append(self, data, leader_epoch, origin, now_ms)
        if plan.duplicate is not None:
            batch = plan.duplicate
            return AppendInfo(batch.base_offset, batch.last_offset, batch.timestamp, True)
        first_offset = self.end_offset
        self._write(plan.data, plan.batches, now_ms)
        return AppendInfo(first_offset, self.end_offset - 1, plan.append_time_ms)

    def append_as_follower(self, data: memoryview) -> None:
        """Writes batches of the leader as they are; CRC and offsets are checked first."""
        now_ms = self._runtime.clock.now_ms()
        for chunk, batches in split_replicated(self.tp, data, self.end_offset, self.settings):
            self._write(chunk, batches, now_ms)

    def _write(self, data: memoryview, batches: list[Batch], now_ms: int) -> None:
        places: list[BatchPlace] = []
        position = last_offset = 0
        newest_ms = -1
        for view, header in batches:
            last_offset = header.base_offset + header.last_offset_delta
            # A batch that compaction emptied on the leader has no record of that time.
            timestamp = header.max_timestamp if header.record_count else -1
            if timestamp > newest_ms:
                newest_ms = timestamp
            places.append((position, last_offset, timestamp))
            position += len(view)
        active = self._segments[-1]
        if retention.should_roll(active, self.settings, position, last_offset, newest_ms, now_ms):
            first_offset = batches[0].header.base_offset
            # Joined on: between two segments recovery takes a gap, which the leader's compaction
            # may have left, for a hole.
            is_near = last_offset - self.end_offset <= MAX_RELATIVE_OFFSET
            active = self.roll(self.end_offset if is_near else first_offset)
        active.append((data,), places)
        for view, header in batches:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = replay_batch(self.producers, header, view)
                if aborted is not None:
                    self.unsynced.add(active.transactions.add(aborted))
        self.grown_to(last_offset + 1, active.size)

    def grown_to(self, end_offset: int, position: int) -> None:
        """Batches up to an offset were added to the active segment, which ends at `position`."""
        self.end_offset = self.producers.map_end_offset = end_offset
        recent = self._recent
        recent[end_offset] = position
        if len(recent) > _RECENT_POSITIONS:
            del recent[next(iter(recent))]

    # --- read -------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool
    ) -> memoryview:
        """Bytes from the batch that holds `offset` on, below `end_offset`; the last batch may be
        cut. Empty instead of an incomplete first batch, which `min_one_batch` gives whole."""
        if offset < self.start_offset or offset > self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.tp}, but we only have "
                f"log segments in the range {self.start_offset} to {self.end_offset}.",
            )
        if offset >= end_offset:
            return EMPTY
        slot = max(0, bisect_right(self._bases, offset) - 1)
        while slot < len(self._segments):
            segment = self._segments[slot]
            position = self._position_of(segment, offset)
            if position is not None:
                limit = self._limit(segment, slot, end_offset)
                return segment.read(position, limit, max_bytes, min_one_batch=min_one_batch)
            slot += 1
        return EMPTY

    def _position_of(self, segment: Segment, offset: int) -> int | None:
        if segment is self._segments[-1]:
            position = self._recent.get(offset)
            if position is not None:
                return position if position < segment.size else None
        found = segment.locate(offset)
        return None if found is None else found[0]

    def _limit(self, segment: Segment, slot: int, end_offset: int) -> int:
        """The file position of `end_offset`, or the segment's end where it lies behind."""
        if end_offset >= self.end_offset or (
            slot + 1 < len(self._bases) and self._bases[slot + 1] <= end_offset
        ):
            return segment.size
        position = self._position_of(segment, end_offset)
        return segment.size if position is None else position

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes a fetch from `offset` waits on; no end of them if it is on an older
        segment (such a fetch never waits)."""
        if offset >= end_offset or offset < self.start_offset:
            return 0
        slot = max(0, bisect_right(self._bases, offset) - 1)
        segment = self._segments[slot]
        start = self._position_of(segment, offset)
        if start is None or (slot + 1 < len(self._bases) and self._bases[slot + 1] < end_offset):
            return MAX_SEGMENT_BYTES
        return max(0, self._limit(segment, slot, end_offset) - start)

    def aborted_in(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Aborted transactions that a reader must know to filter `size` bytes read at `offset`
        (Log.addAbortedTransactions); a few too many do no harm."""
        slot = max(0, bisect_right(self._bases, offset) - 1)
        found: list[AbortedTransaction] = []
        if not any(segment.transactions.aborted() for segment in self._segments[slot:]):
            return found
        upper_bound = self.end_offset
        for number in range(slot, len(self._segments)):
            segment = self._segments[number]
            position = self._position_of(segment, offset)
            if position is None:
                continue
            bound = segment.indexes().offset_after(position + size)
            if bound is not None:
                upper_bound = bound
            elif number + 1 < len(self._bases):
                upper_bound = self._bases[number + 1]
            break
        for segment in self._segments[slot:]:
            if transaction_index.collect(
                segment.transactions.aborted(), offset, upper_bound, found
            ):
                break
        return found

    # --- bounds -----------------------------------------------------------------------------

    def set_high_watermark(self, offset: int) -> bool:
        """Within the log's bounds; True if it moved."""
        if offset > self.end_offset:
            offset = self.end_offset
        if offset < self.start_offset:
            offset = self.start_offset
        if offset == self.high_watermark:
            return False
        self.high_watermark = offset
        if self.producers.first_unstable_offset is not None:
            self.producers.replicated_up_to(offset)
        return True

    @property
    def last_stable_offset(self) -> int:
        """Up to here every transaction has ended: where readers of committed records stop."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.start_offset)

    def advance_start_offset(self, offset: int) -> bool:
        """Hides everything before `offset` (DeleteRecords, leader's start); True if it moved."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Cannot increment the log start offset to {offset} of partition {self.tp} since "
                f"it is larger than the high watermark {self.high_watermark}",
            )
        if offset <= self.start_offset:
            return False
        self.start_offset = offset
        self.epochs.truncate_from_start(offset)
        if self.on_start_moved is not None:
            self.on_start_moved()
        return True

    def assign_epoch_start(self, leader_epoch: int) -> None:
        """This broker leads from here on with that epoch."""
        self.epochs.assign(leader_epoch, self.end_offset)

    def assign_topic_id(self, topic_id: TopicId) -> None:
        if self.topic_id not in (ZERO_TOPIC_ID, topic_id):
            raise InvariantViolated(f"{self.tp} has a topic id already")
        self.topic_id = topic_id
        path = self.folder / checkpoints.PARTITION_METADATA
        self._write_small_file(path, checkpoints.encode_partition_metadata(topic_id))

    # --- truncation -------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> list[Path]:
        """Cuts everything from `offset` on (and the batch that holds it); files to remove later."""
        if offset >= self.end_offset:
            # A leader notes its epoch before its first record. Where no record followed, the note
            # contradicts the next leader's and must go, or the two never agree (Log.truncateTo).
            self.epochs.truncate_from_end(self.end_offset)
            return []
        if offset < self._bases[0]:
            return self.truncate_fully_and_start_at(offset)
        keep = bisect_right(self._bases, offset)
        removed = self.drop_segments(keep, len(self._segments))
        last = self.active
        last.unseal()
        found = last.locate(offset)
        end = offset
        if found is not None:
            position, header = found
            end = min(offset, header.base_offset)
            last.truncate(position, end)
        self._after_truncation(end)
        self._drop_snapshots_after(end)
        self._reload_producers()
        return removed

    def truncate_fully_and_start_at(self, offset: int) -> list[Path]:
        """Drops all records; the log is empty from `offset` on."""
        removed = self.drop_segments(0, len(self._segments))
        self.add_segment(self.new_segment(offset))
        self.start_offset = offset
        self._after_truncation(offset)
        self.high_watermark = offset
        self.epochs.clear()
        self._drop_snapshots_after(-1)
        self.producers.clear(offset)
        return removed

    def _after_truncation(self, end_offset: int) -> None:
        self.generation += 1
        self._recent.clear()
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def _drop_snapshots_after(self, offset: int) -> None:
        for snapshot_offset in snapshot_offsets(self._runtime.disk, self.folder):
            if snapshot_offset > offset:
                path = self.folder / file_name(snapshot_offset, SNAPSHOT_SUFFIX)
                self._runtime.disk.remove(path)
                self.unsynced.discard(path)

    def _reload_producers(self) -> None:
        self.producers = load_producers(self._runtime.disk, self.folder, self._segments, self)

    # --- files ------------------------------------------------------------------------------

    def write_snapshot(self) -> None:
        """The producers' state up to the log's end, once per end (ProducerStateManager)."""
        producers = self.producers
        if producers.map_end_offset <= producers.last_snapshot_offset:
            return
        offset = producers.map_end_offset
        path = self.folder / file_name(offset, SNAPSHOT_SUFFIX)
        self._write_small_file(path, producers.encode_snapshot())
        producers.last_snapshot_offset = offset

    def write_epochs(self) -> None:
        """Atomic and durable; called before the recovery point passes, and on close."""
        self._runtime.disk.write_atomically(
            self.folder / checkpoints.LEADER_EPOCHS,
            checkpoints.encode_epochs(self.epochs.entries()),
        )
        self.epochs.dirty = False

    def _write_small_file(self, path: Path, data: bytes) -> None:
        file = self._runtime.disk.open(path)
        try:
            file.truncate(0)
            file.append(data)
        finally:
            file.close()
        self.unsynced.add(path)

    def move_to(self, folder: Path) -> None:
        """The folder was renamed."""
        self.release()
        self.unsynced = {folder / path.name for path in self.unsynced}
        self.folder = folder
        for segment in self._segments:
            segment.move_to(folder)

    def release(self) -> None:
        """Gives back all descriptors."""
        for segment in self._segments:
            segment.forget()
