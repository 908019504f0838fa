"""The log of one partition replica: what is appended and read, and the offsets that bound it (Log).

Everything here runs on the event loop and is quick; fsync, recovery scans and removal of files
are done elsewhere with descriptors of their own (`flush`, `recovery`, `ottla.storage.manager`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, cast

from ottla.errors import ErrorCode, InvariantViolated, KafkaError
from ottla.runtime import Runtime
from ottla.storage.append.checks import Batch, Origin
from ottla.storage.append.follower import split_replicated
from ottla.storage.append.leader import Checked, check_in_steps, prepare_leader_append
from ottla.storage.append.plain import is_plain, prepare_plain_append
from ottla.storage.append.rolling import should_roll
from ottla.storage.append.steps import Steps, finished
from ottla.storage.log.flush import Flush
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segments import Segments
from ottla.storage.log.side_files import SideFiles
from ottla.storage.producers.replay import replay_batch
from ottla.storage.producers.snapshots import state_at
from ottla.storage.producers.state import ProducerState
from ottla.storage.segment.file_names import SEGMENT_SUFFIXES
from ottla.storage.segment.open_files import OpenFiles
from ottla.storage.segment.segment import (
    EMPTY,
    MAX_RELATIVE_OFFSET,
    MAX_SEGMENT_BYTES,
    Segment,
)
from ottla.storage.segment.slices import RecordSlice
from ottla.storage.segment.sparse_indexes import BatchPlace
from ottla.storage.segment.transaction_index import AbortedTransaction
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

NEVER_CLEANED = -1


class AppendInfo(NamedTuple):
    """Where an append went. For a duplicate: where the first copy is."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    duplicate: bool = False


class Log:
    """One replica: its segments, its bounds, its leader epochs and its producers.

    `start_offset` <= `high_watermark` <= `end_offset`, and `recovery_point` is how far it is known
    to be on disk. `generation` counts truncations: what was seen before one holds no more.
    """

    __slots__ = (
        "_is_plain",
        "_runtime",
        "checkpointed_high_watermark",
        "cleaned_offset",
        "data_dir",
        "end_offset",
        "epochs",
        "folder",
        "generation",
        "high_watermark",
        "is_stray",
        "last_flush_ms",
        "on_roll",
        "on_start_moved",
        "producers",
        "recovery_point",
        "segments",
        "settings",
        "side_files",
        "start_offset",
        "topic_id",
        "tp",
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
        data_dir: Path | None = None,
    ) -> None:
        """`data_dir` is the folder's parent: one object for all logs in there is quick to look up
        and to compare."""
        self._runtime = runtime
        self.tp = tp
        self.folder = folder
        self.data_dir = folder.parent if data_dir is None else data_dir
        self.settings = settings
        self._is_plain = is_plain(settings)
        self.topic_id = topic_id
        self.segments = Segments(runtime, open_files, folder)
        self.side_files = SideFiles(runtime.disk, folder)
        self.epochs = LeaderEpochs()
        self.producers = ProducerState()
        self.start_offset = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.checkpointed_high_watermark = -1
        self.recovery_point = 0
        # Compaction came up to here (its checkpoint).
        self.cleaned_offset = NEVER_CLEANED
        self.last_flush_ms = runtime.clock.now_ms()
        self.generation = 0
        # No topic of now is known to own it: retention and compaction leave it alone.
        self.is_stray = False
        self.on_roll: Callable[[Log], None] | None = None
        self.on_start_moved: Callable[[], None] | None = None

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
        shares_id_file: bool = False,
        data_dir: Path | None = None,
    ) -> Log:
        """A new, empty log in a new folder. With `shares_id_file` its id is noted elsewhere."""
        runtime.disk.make_dirs(folder)
        log = cls(runtime, open_files, tp, folder, settings, data_dir=data_dir)
        log.segments.start_unmade(settings.index_interval_bytes, log.last_flush_ms)
        if topic_id != ZERO_TOPIC_ID:
            log.assign_topic_id(topic_id, is_shared=shares_id_file)
        return log

    def use_settings(self, settings: LogConfig) -> None:
        """Other configs of the topic hold from now on."""
        self.settings = settings
        self._is_plain = is_plain(settings)
        self.active.index_interval_bytes = settings.index_interval_bytes

    # --- segments ---------------------------------------------------------------------------

    @property
    def active(self) -> Segment:
        return self.segments.active

    @property
    def size(self) -> int:
        return self.segments.size

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
        if active.is_unmade:
            self.side_files.secure_id()
        active.seal()
        # A follower's next batch may leave a gap; the snapshot belongs to the new segment's base.
        self.producers.map_end_offset = base_offset
        self.write_snapshot()
        segment = self.segments.start(base_offset, self.settings.index_interval_bytes)
        if self.on_roll is not None:
            self.on_roll(self)
        return segment

    def drop_segments(self, start: int, stop: int) -> list[Path]:
        """Takes segments out of the log; returns their renamed files, to be removed later."""
        removed = self.segments.drop(start, stop)
        self.side_files.forget(removed)
        return removed

    def replace_segments(self, parts: Sequence[Segment], compacted: Segment) -> list[Path]:
        """Puts a compacted segment in the place of others; files to remove later."""
        removed = self.segments.replace(parts, compacted)
        self.side_files.forget(removed)
        return removed

    # --- append -----------------------------------------------------------------------------

    def check_in_steps(self, data: memoryview, origin: Origin = Origin.CLIENT) -> Steps[Checked]:
        """What a leader checks before `append_as_leader`, whatever the log holds by then; raises
        KafkaError."""
        now_ms = self._runtime.clock.now_ms()
        return check_in_steps(self.tp, self.settings, data, origin, now_ms)

    def append_as_leader(
        self, data: memoryview | Checked, leader_epoch: int, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Assigns offsets in place and writes, after a check if there was none yet; raises
        KafkaError, OSError from the disk."""
        if isinstance(data, memoryview):
            data = finished(self.check_in_steps(data, origin))
        now_ms = self._runtime.clock.now_ms()
        plan = prepare_leader_append(
            self.tp,
            self.settings,
            self.producers,
            data,
            end_offset=self.end_offset,
            leader_epoch=leader_epoch,
            origin=origin,
            now_ms=now_ms,
        )
        if plan.duplicate is not None:
            batch = plan.duplicate
            return AppendInfo(batch.base_offset, batch.last_offset, batch.timestamp, True)
        if not plan.batches:
            return AppendInfo(-1, -1, -1)
        first_offset = self.end_offset
        self._write(plan.data, plan.batches, now_ms)
        return AppendInfo(first_offset, self.end_offset - 1, plan.append_time_ms)

    def append_plain(self, batches: Sequence[memoryview], leader_epoch: int) -> list[int]:
        """The short way for a leader's usual batches: the base offsets of those that were appended,
        from the first one on. `append_as_leader` decides about the rest. Raises OSError."""
        if not self._is_plain:
            return []
        active = self.segments.active
        plan = prepare_plain_append(
            self.settings, self.producers, active, batches, self.end_offset, leader_epoch
        )
        if plan is None:
            return []
        used, places, base_offsets, end_offset, idempotent = plan
        if active.is_unmade:
            self.side_files.secure_id()
        active.append(used, places)
        self.epochs.assign(leader_epoch, base_offsets[0])
        if idempotent is not None:
            idempotent.record()
        self.end_offset = self.producers.map_end_offset = end_offset
        self.segments.grown_to(end_offset, active.size)
        return base_offsets

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
        active = self.segments.active
        if should_roll(active, self.settings, position, last_offset, newest_ms, now_ms):
            first_offset = batches[0].header.base_offset
            # Joined on: between two segments recovery takes a gap, which the leader's compaction
            # may have left, for a hole.
            is_near = last_offset - self.end_offset <= MAX_RELATIVE_OFFSET
            active = self.roll(self.end_offset if is_near else first_offset)
        if active.is_unmade:
            self.side_files.secure_id()
        active.append((data,), places)
        for view, header in batches:
            self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = replay_batch(self.producers, header, view)
                if aborted is not None:
                    self.side_files.unsynced.add(active.transactions.add(aborted))
        self.end_offset = self.producers.map_end_offset = last_offset + 1
        self.segments.grown_to(last_offset + 1, active.size)

    # --- read -------------------------------------------------------------------------------

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool
    ) -> memoryview:
        """Bytes from the batch that holds `offset` on, below `end_offset`; the last batch may be
        cut. Empty instead of an incomplete first batch, which `min_one_batch` gives whole."""
        return cast(
            "memoryview",  # slices are for those who ask for them
            self.read_or_slice(
                offset,
                max_bytes,
                end_offset,
                min_one_batch=min_one_batch,
                sliced_from=MAX_SEGMENT_BYTES + 1,
            ),
        )

    def read_or_slice(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        *,
        min_one_batch: bool,
        sliced_from: int,
    ) -> memoryview | RecordSlice:
        """As `read`; from `sliced_from` bytes on they stay in the file for now."""
        if offset < self.start_offset or offset > self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Received request for offset {offset} for partition {self.tp}, but we only have "
                f"log segments in the range {self.start_offset} to {self.end_offset}.",
            )
        if offset >= end_offset:
            return EMPTY
        limit = None if end_offset >= self.end_offset else end_offset
        return self.segments.read(
            offset, max_bytes, limit, min_one_batch=min_one_batch, sliced_from=sliced_from
        )

    def bytes_between(self, offset: int, end_offset: int) -> int:
        """How many bytes a fetch from `offset` waits on."""
        if offset >= end_offset or offset < self.start_offset:
            return 0
        is_to_end = end_offset >= self.end_offset
        return self.segments.bytes_between(offset, end_offset, is_to_end=is_to_end)

    def aborted_in(self, offset: int, size: int) -> list[AbortedTransaction]:
        """Aborted transactions that a reader must know to filter `size` bytes read at `offset`."""
        return self.segments.aborted_in(offset, size, self.end_offset)

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

    def assign_topic_id(self, topic_id: TopicId, *, is_shared: bool = False) -> None:
        """`is_shared`: the data folder's file for small logs has it, and that is enough for now."""
        if self.topic_id not in (ZERO_TOPIC_ID, topic_id):
            raise InvariantViolated(f"{self.tp} has a topic id already")
        self.topic_id = topic_id
        if is_shared:
            self.side_files.shared_id = topic_id
        else:
            self.side_files.write_topic_id(topic_id)

    # --- truncation -------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> list[Path]:
        """Cuts everything from `offset` on (and the batch that holds it); files to remove later."""
        if offset >= self.end_offset:
            # A leader notes its epoch before its first record. Where no record followed, the note
            # contradicts the next leader's and must go, or the two never agree (Log.truncateTo).
            self.epochs.truncate_from_end(self.end_offset)
            return []
        keep = self.segments.count_up_to(offset)
        if keep == 0:
            return self.truncate_fully_and_start_at(offset)
        removed = self.drop_segments(keep, len(self.segments))
        end = self.segments.truncate_active(offset)
        self._after_truncation(end)
        self.side_files.drop_snapshots_after(end)
        disk = self._runtime.disk
        self.producers = state_at(disk, self.folder, self.segments, self.start_offset, end)
        self.producers.replicated_up_to(self.high_watermark)
        return removed

    def truncate_fully_and_start_at(self, offset: int) -> list[Path]:
        """Drops all records; the log is empty from `offset` on."""
        if self.active.is_unmade:
            self.side_files.secure_id()
        removed = self.drop_segments(0, len(self.segments))
        self.segments.start(offset, self.settings.index_interval_bytes)
        self.start_offset = offset
        self._after_truncation(offset)
        self.high_watermark = offset
        self.epochs.clear()
        self.side_files.drop_snapshots_after(-1)
        self.producers.clear(offset)
        return removed

    def _after_truncation(self, end_offset: int) -> None:
        self.generation += 1
        self.end_offset = end_offset
        self.start_offset = min(self.start_offset, end_offset)
        self.recovery_point = min(self.recovery_point, end_offset)
        self.cleaned_offset = min(self.cleaned_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_from_end(end_offset)

    # --- files ------------------------------------------------------------------------------

    def write_snapshot(self) -> None:
        self.side_files.write_snapshot(self.producers)

    def begin_flush(self) -> Flush:
        """What has to go to disk for all that was appended so far; raises OSError."""
        # What is durable must not depend on a line that is not.
        self.side_files.write_shared_id()
        recovery_point = self.recovery_point
        parts = self.segments
        paths = [
            segment.path(suffix)
            for number, segment in enumerate(parts)
            if number + 1 == len(parts) or parts[number + 1].base_offset > recovery_point
            for suffix in SEGMENT_SUFFIXES[:3]
        ]
        epochs = self.epochs.entries() if self.epochs.dirty else None
        self.epochs.dirty = False
        paths += self.side_files.unsynced
        return Flush(self.end_offset, self.generation, self.folder, epochs, paths)

    def end_flush(self, flush: Flush) -> None:
        """It is on disk: the recovery point moves, unless a truncation came between. A flush that
        ran across one says nothing about the new records."""
        self.side_files.unsynced.difference_update(flush.paths)
        self.last_flush_ms = self._runtime.clock.now_ms()
        if self.generation == flush.generation:
            self.recovery_point = max(self.recovery_point, flush.end_offset)

    def move_to(self, folder: Path, tp: TopicPartition | None = None) -> None:
        """The folder was renamed, and with `tp` its topic as well. Whoever is at work on its files
        then sees another generation and gives up."""
        self.segments.release()
        self.folder = folder
        self.side_files.move_to(folder)
        self.segments.move_to(folder)
        if tp is not None:
            self.tp = tp
            self.generation += 1

    def release(self) -> None:
        """Gives back all descriptors."""
        self.segments.release()
