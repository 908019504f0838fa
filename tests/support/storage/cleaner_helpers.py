"""A compacted log and a cleaner for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.storage.compaction.cleaner import Cleaner
from ottla.storage.log.log import Log
from ottla.topics.configs import LogConfig
from ottla.wire import records
from tests.support.storage.log_helpers import START_MS, ManualClock, new_log, runtime, settings

DAY_MS = 86_400_000
Pair = tuple[bytes | None, bytes | None]


def compacted(**changes: object) -> LogConfig:
    values: dict[str, object] = {
        "cleanup_policy": frozenset({"compact"}),
        "segment_bytes": 400,
        "min_cleanable_dirty_ratio": 0.0,
    }
    return settings(**{**values, **changes})


class Rig:
    """One log, its cleaner and the files that were set aside."""

    def __init__(self, path: Path, config: LogConfig | None = None, **properties: str) -> None:
        self.clock = ManualClock()
        self.log = new_log(path, config or compacted(), clock=self.clock)
        self.failures: list[OSError] = []
        self.set_aside: list[Path] = []
        self.epoch = 0
        self.cleaner = self.new_cleaner(**properties)

    def new_cleaner(self, **properties: str) -> Cleaner:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        config = BrokerConfig({"zookeeper.connect": "localhost:2181", **named})
        return Cleaner(
            runtime(self.clock),
            lambda: config,
            lambda: [self.log],
            lambda _: self.log,
            lambda _, error: self.failures.append(error),
            lambda _, paths: self.set_aside.extend(paths),
            self.flush,
        )

    async def flush(self, log: Log) -> None:
        log.side_files.write_epochs(log.epochs)

    def append(self, pairs: Iterable[Pair], *, compression: int = 0, **options: object) -> None:
        items = [records.Record(key, value, self.clock.ms) for key, value in pairs]
        built = records.build_batch(items, compression=compression, **options)  # type: ignore[arg-type]
        self.log.append_as_leader(memoryview(bytearray(built)), self.epoch)
        self.log.set_high_watermark(self.log.end_offset)

    def seal(self) -> None:
        """Everything so far may be compacted; a lone record follows."""
        self.log.roll()
        self.append([(b"tail", b"t")])

    def contents(self) -> list[tuple[int, bytes | None, bytes | None]]:
        """(offset, key, value) of all data records, read as a follower would."""
        return [
            (record.offset, record.key, record.value)
            for header, view in self.batches()
            if not header.is_control
            for record in records.iter_records(view)
        ]

    def batches(self) -> list[tuple[records.BatchHeader, memoryview]]:
        found = []
        offset = self.log.start_offset
        while offset < self.log.end_offset:
            data = self.log.read(offset, 1 << 20, self.log.end_offset, min_one_batch=True)
            part = list(records.iter_batches(data))
            if not part:
                break
            found += part
            offset = part[-1][0].next_offset
        return found

    def names(self, suffix: str = "") -> list[str]:
        return sorted(path.name for path in self.log.folder.iterdir() if suffix in path.name)


def age(log: Log, by_ms: int) -> None:
    """Makes every segment file older."""
    import os

    for segment in log.segments:
        path = segment.path(".log")
        seconds = path.stat().st_mtime - by_ms / 1000
        os.utime(path, (seconds, seconds))


__all__ = ["DAY_MS", "START_MS", "Rig", "age", "compacted"]
