"""One `log.dirs` entry: its lock, its checkpoints, the logs found in it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ottla.errors import OttlaError
from ottla.runtime import Disk, Runtime
from ottla.storage import checkpoints, recovery
from ottla.storage.checkpoints import CheckpointDamaged
from ottla.storage.cleaning_plan import NEVER_CLEANED
from ottla.storage.dir_lock import HeldLock
from ottla.storage.log import Log
from ottla.storage.open_files import OpenFiles
from ottla.storage.settings import LogSettings
from ottla.types import TopicPartition

_logger = logging.getLogger(__name__)
DELETE_SUFFIX = "-delete"
FUTURE_SUFFIX = "-future"
_MAX_NAME = 255
_UUID_DIGITS = 32


class StrangeFolder(OttlaError):
    """A sub-folder of a data folder that is no partition's."""


def parse_folder_name(name: str) -> TopicPartition | None:
    """`topic-3` -> (topic, 3); None for anything else."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not (number.isascii() and number.isdigit()):
        return None
    return TopicPartition(topic, int(number))


def deletion_name(tp: TopicPartition, random_hex: str) -> str:
    """`<topic>-<p>.<32 hex>-delete`, the topic cut so that the name fits (Log.logDeleteDirName)."""
    suffix = f"-{tp.partition}.{random_hex}{DELETE_SUFFIX}"
    return tp.topic[: _MAX_NAME - len(suffix)] + suffix


def is_deletion_name(name: str) -> bool:
    head = name[: -len(DELETE_SUFFIX)]
    digits = head.rpartition(".")[2]
    return name.endswith(DELETE_SUFFIX) and "." in head and len(digits) == _UUID_DIGITS


class DataDir:
    """Loaded once at start; `offline` says why it cannot be used any more."""

    def __init__(self, runtime: Runtime, path: Path) -> None:
        self._runtime = runtime
        self.path = path
        self.lock: HeldLock | None = None
        self.offline: str | None = None
        self.log_count = 0
        # What the cleaner's checkpoint says now.
        self.checkpointed_cleaned: dict[TopicPartition, int] = {}

    @property
    def _disk(self) -> Disk:
        return self._runtime.disk

    def load(
        self, open_files: OpenFiles, settings_of: Callable[[str], LogSettings]
    ) -> tuple[list[Log], list[Path]]:
        """All logs, and folders whose deletion was begun. Blocking; raises OSError."""
        clean_marker = self.path / checkpoints.CLEAN_SHUTDOWN
        clean = self._disk.exists(clean_marker)
        self._disk.remove(clean_marker)
        recovery_points = self._read_or_empty(checkpoints.RECOVERY_POINTS)
        starts = self._read_or_empty(checkpoints.LOG_STARTS)
        watermarks = self._read_offsets(checkpoints.HIGH_WATERMARKS)
        cleaned = self.checkpointed_cleaned = self._read_or_empty(checkpoints.CLEANED)
        logs: list[Log] = []
        doomed: list[Path] = []
        for name in self._disk.list_dir(self.path):
            folder = self.path / name
            if not self._disk.is_dir(folder) or name.startswith("__cluster_metadata-"):
                continue
            if is_deletion_name(name):
                doomed.append(folder)
                continue
            if name.endswith(FUTURE_SUFFIX):
                # A move between folders that Kafka had not finished; the log itself is elsewhere.
                _logger.warning("%s is left alone: moves between folders are not done", folder)
                continue
            tp = parse_folder_name(name)
            if tp is None:
                raise StrangeFolder(
                    f"Found directory {folder}, '{name}' is not in the form of topic-partition or "
                    "topic-partition.uniqueId-delete (if marked for deletion). Kafka's log "
                    "directories (and children) should only contain Kafka topic data."
                )
            log = recovery.load_log(
                self._runtime,
                open_files,
                tp,
                folder,
                settings_of(tp.topic),
                clean=clean,
                recovery_point=recovery_points.get(tp, 0),
                start_offset=starts.get(tp, 0),
                high_watermark=watermarks.get(tp, 0),
            )
            log.cleaned_offset = min(cleaned.get(tp, NEVER_CLEANED), log.end_offset)
            logs.append(log)
        self.log_count = len(logs)
        return logs, doomed

    def _read_or_empty(self, name: str) -> dict[TopicPartition, int]:
        """Kafka goes on without these: it then recovers more, or shows deleted records."""
        try:
            return self._read_offsets(name)
        except OSError as error:
            _logger.warning("%s", error)
            return {}

    def _read_offsets(self, name: str) -> dict[TopicPartition, int]:
        path = self.path / name
        if not self._disk.exists(path):
            return {}
        try:
            return checkpoints.decode_offsets(self._disk.read_bytes(path))
        except CheckpointDamaged as damage:
            raise OSError(f"{path}: {damage}") from None

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

    def write(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self._disk.write_atomically(self.path / name, checkpoints.encode_offsets(offsets))

    def mark_clean(self) -> None:
        self._disk.open(self.path / checkpoints.CLEAN_SHUTDOWN).close()
