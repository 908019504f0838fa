"""One `log.dirs` entry: its lock, its checkpoints, the logs found in it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.errors import KafkaError
from ottla.runtime import Disk, HeldLock, Runtime
from ottla.storage import checkpoints
from ottla.storage.checkpoints import CheckpointDamaged
from ottla.storage.log import recovery, small_logs
from ottla.storage.log.log import NEVER_CLEANED, Log
from ottla.storage.manager.folder_names import (
    TRASH_FOLDER,
    is_deletion_name,
    is_stray_name,
    parse_folder_name,
    parse_future_name,
)
from ottla.storage.manager.shared_ids import SharedIds
from ottla.storage.segment.open_files import OpenFiles
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

logger = logging.getLogger(__name__)


class Found(NamedTuple):
    """What a folder holds: logs, copies on their way to this folder, begun deletions, and logs
    that were set aside."""

    logs: list[Log]
    futures: list[Log]
    doomed: list[Path]
    strays: list[Path]


class DataDir:
    """Loaded once at start; `offline` says why it cannot be used any more."""

    def __init__(self, runtime: Runtime, path: Path) -> None:
        self._runtime = runtime
        self.path = path
        self.lock: HeldLock | None = None
        self.offline: str | None = None
        self.log_count = 0
        self.shared_ids = SharedIds(runtime.disk, path)
        # One object for all logs of the folder.
        self.secure_id = self.shared_ids.secure
        self._writing = threading.Lock()
        self._order = 0
        # The `order` of what each checkpoint holds.
        self._written: dict[str, int] = {}
        # Of these the checkpoints may speak, but their logs are not here any more; with the `order`
        # of their going. A name can go, come and go again while checkpoints are written.
        self.gone: dict[TopicPartition, int] = {}
        # What the cleaner's checkpoint says now.
        self.checkpointed_cleaned: dict[TopicPartition, int] = {}

    @property
    def _disk(self) -> Disk:
        return self._runtime.disk

    def load(self, open_files: OpenFiles, settings_of: Callable[[str], LogConfig]) -> Found:
        """Everything in the folder. Blocking; raises OSError."""
        clean_marker = self.path / checkpoints.CLEAN_SHUTDOWN
        clean = self._disk.exists(clean_marker)
        notes = self._read_notes() if clean else {}
        if clean:
            # For good, before anything is written: no power cut may bring the marker back.
            self._disk.remove(clean_marker)
            self._disk.remove(self.path / small_logs.NOTES)
            self._disk.sync_dir(self.path)
        recovery_points = self._read_or_empty(checkpoints.RECOVERY_POINTS)
        starts = self._read_or_empty(checkpoints.LOG_STARTS)
        watermarks = self._read_or_empty(checkpoints.HIGH_WATERMARKS)
        cleaned = self.checkpointed_cleaned = self._read_or_empty(checkpoints.CLEANED)
        found = Found([], [], [], [])
        shared_ids = self.shared_ids.load()
        for name in self._disk.list_dir(self.path):
            tp = parse_folder_name(name) if name in notes else None
            if tp is not None and tp not in cleaned:
                log = small_logs.load_noted(
                    *(self._runtime, open_files, tp, self.path, settings_of(tp.topic), notes[name]),
                    start_offset=starts.get(tp, 0),
                    high_watermark=watermarks.get(tp, 0),
                )
                if log is not None:
                    found.logs.append(log)
                    continue
            folder = self.path / name
            if not self._disk.is_dir(folder) or name.startswith("__cluster_metadata-"):
                continue
            if name == TRASH_FOLDER:
                continue
            if is_deletion_name(name):
                found.doomed.append(folder)
                continue
            if is_stray_name(name):
                found.strays.append(folder)
                continue
            future = parse_future_name(name)
            tp = future or parse_folder_name(name)
            if tp is None:
                _tell_strange(folder)
                continue
            try:
                log = recovery.load_log(
                    self._runtime,
                    open_files,
                    tp,
                    folder,
                    settings_of(tp.topic),
                    clean=clean,
                    # The checkpoints speak of the log itself, not of a copy that is not finished.
                    recovery_point=0 if future else recovery_points.get(tp, 0),
                    start_offset=0 if future else starts.get(tp, 0),
                    high_watermark=0 if future else watermarks.get(tp, 0),
                    was_compacted=tp in cleaned,
                    shared_id=shared_ids.get(name, ZERO_TOPIC_ID),
                )
            except KafkaError as error:
                # One place too many is damaged: told by its name, and no other folder suffers.
                raise OSError(f"{folder}: {error}") from None
            log.data_dir = self.path
            log.cleaned_offset = min(cleaned.get(tp, NEVER_CLEANED), log.end_offset)
            (found.futures if future else found.logs).append(log)
        self.log_count = len(found.logs)
        named = {*recovery_points, *starts, *watermarks, *cleaned}
        self.gone = dict.fromkeys(named.difference(log.tp for log in found.logs), self.order())
        self._keep_ids(found.logs, shared_ids)
        return found

    def _keep_ids(self, logs: Iterable[Log], shared_ids: Mapping[str, TopicId]) -> None:
        """Lines of logs that have no id of their own, or none that is known to be on disk."""
        kept: dict[str, TopicId] = {}
        for log in logs:
            name, files = str(log.tp), log.side_files
            # A log that never had a line came with its own file, from another broker.
            had_line = files.shared_id is not None or shared_ids.get(name) == log.topic_id
            if files.needs_line and had_line:
                kept[name] = log.topic_id
        self.shared_ids.keep(kept)
        self.shared_ids.make_durable()

    def forget(self, tp: TopicPartition) -> None:
        """Its log is not here any more; `write_all` has to follow before another gets its name."""
        self.gone[tp] = self.order()
        self.shared_ids.drop(str(tp))

    def written_since(self, order: int) -> None:
        """All checkpoints were written of what was seen after `order`: they speak of no log that
        went before."""
        self.gone = {tp: went for tp, went in self.gone.items() if went > order}

    def _read_notes(self) -> dict[str, small_logs.Note]:
        """Whatever is wrong with them, the logs themselves have it all."""
        path = self.path / small_logs.NOTES
        try:
            return small_logs.decode_notes(self._disk.read_bytes(path))
        except FileNotFoundError:
            return {}
        except (OSError, CheckpointDamaged) as error:
            logger.warning("%s: %s", path, error)
            return {}

    def _read_or_empty(self, name: str) -> dict[TopicPartition, int]:
        """A damaged file counts as none. More is recovered then, deleted records are seen again, or
        a high watermark comes from the leader and the followers; for the last one alone Kafka takes
        the folder out of use, and does so again at every start."""
        path = self.path / name
        if not self._disk.exists(path):
            return {}
        try:
            return checkpoints.decode_offsets(self._disk.read_bytes(path))
        except (OSError, CheckpointDamaged) as error:
            logger.warning("%s is not used: %s", path, error)
            return {}

    def high_watermarks(self, logs: Iterable[Log]) -> dict[TopicPartition, int]:
        return {log.tp: log.high_watermark for log in logs}

    def recovery_points(self, logs: Iterable[Log]) -> dict[TopicPartition, int]:
        return {log.tp: log.recovery_point for log in logs}

    def start_offsets(self, logs: Iterable[Log]) -> dict[TopicPartition, int]:
        """Only where records before the start are still in the first segment."""
        return {
            log.tp: log.start_offset
            for log in logs
            if log.start_offset > log.segments[0].base_offset
        }

    def cleaned_offsets(self, logs: Iterable[Log]) -> dict[TopicPartition, int]:
        return {log.tp: log.cleaned_offset for log in logs if log.cleaned_offset != NEVER_CLEANED}

    def order(self) -> int:
        """Tells what is seen now from what was seen before; for `write`."""
        self._order += 1
        return self._order

    def write(self, name: str, offsets: Mapping[TopicPartition, int], order: int) -> None:
        """On any thread; nothing where something that was seen later is written already."""
        with self._writing:
            if order > self._written.get(name, 0):
                data = checkpoints.encode_offsets(offsets)
                self._disk.write_atomically(self.path / name, data)
                self._written[name] = order

    def write_all(self, logs: list[Log], also: Mapping[TopicPartition, Log] | None = None) -> None:
        """All checkpoints as of now, without logs that are gone. `also` are names that some of the
        logs are about to get: what is said of a log is said of its other name as well."""
        order, also = self.order(), also or {}

        def named(offsets: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
            other = {tp: offsets[log.tp] for tp, log in also.items() if log.tp in offsets}
            return offsets | other

        cleaned = named(self.cleaned_offsets(logs))
        self.write(checkpoints.RECOVERY_POINTS, named(self.recovery_points(logs)), order)
        self.write(checkpoints.LOG_STARTS, named(self.start_offsets(logs)), order)
        self.write(checkpoints.HIGH_WATERMARKS, named(self.high_watermarks(logs)), order)
        self.write(checkpoints.CLEANED, cleaned, order)
        self.shared_ids.write()
        self.checkpointed_cleaned = cleaned
        self.gone.clear()

    def mark_clean(self, notes: list[small_logs.Note]) -> None:
        """The last step: everything else is durable."""
        self.shared_ids.write()
        self._disk.write_atomically(self.path / small_logs.NOTES, small_logs.encode_notes(notes))
        self._disk.open(self.path / checkpoints.CLEAN_SHUTDOWN).close()


def _tell_strange(folder: Path) -> None:
    """A person's backup, or what is left of a name that was never a topic's. Kafka does not start
    beside it, and one such folder would then keep a broker down for good."""
    logger.error(
        "Found directory %s, '%s' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion). It is left alone: Kafka's log "
        "directories (and children) should only contain Kafka topic data.",
        folder,
        folder.name,
    )
