"""A disk in memory that forgets, on a crash, what was not fsynced, and tears the last write."""

from __future__ import annotations

import random
from pathlib import Path


class _Content:
    def __init__(self) -> None:
        self.now = bytearray()
        self.synced = b""
        # (position, bytes) since the last sync, in order.
        self.unsynced: list[tuple[int, bytes]] = []


class CrashFile:
    def __init__(self, disk: CrashDisk, content: _Content) -> None:
        self._disk = disk
        self._content = content

    def append(self, data) -> None:
        self.write_at(data, len(self._content.now))

    def write_at(self, data, position: int) -> None:
        self._disk.check()
        now = self._content.now
        if len(now) < position:
            now.extend(bytes(position - len(now)))
        now[position : position + len(data)] = data
        self._content.unsynced.append((position, bytes(data)))

    def read_at(self, size: int, position: int) -> bytes:
        return bytes(self._content.now[position : position + size])

    def truncate(self, size: int) -> None:
        self._disk.check()
        del self._content.now[size:]
        # Kept simple: a truncation reaches the disk with the next sync, or not at all.
        self._content.unsynced.clear()

    def size(self) -> int:
        return len(self._content.now)

    def sync(self) -> None:
        self._disk.check()
        self._disk.syncs += 1
        self._content.synced = bytes(self._content.now)
        self._content.unsynced.clear()

    def close(self) -> None:
        return None


class CrashDisk:
    """The Disk port in memory; `crash` decides by its seed what was kept."""

    def __init__(self, seed: int = 0) -> None:
        self.files: dict[Path, _Content] = {}
        # Files whose name survives a crash: their folder was synced after they were made.
        self.named: set[Path] = set()
        self.syncs = 0
        self.is_full = False
        self._random = random.Random(seed)

    def check(self) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")

    def crash(self) -> None:
        """Of each file stays what was synced, plus any part of the writes after that."""
        for path in list(self.files):
            if path not in self.named:
                del self.files[path]
                continue
            content = self.files[path]
            survived = bytearray(content.synced)
            for position, data in content.unsynced:
                if self._random.random() < 0.5:
                    continue
                kept = data[: self._random.randrange(len(data) + 1)]
                if len(survived) < position + len(kept):
                    survived.extend(bytes(position + len(kept) - len(survived)))
                survived[position : position + len(kept)] = kept
            content.now = survived
            content.synced = bytes(survived)
            content.unsynced = []

    def open(self, path: Path, *, create: bool = True) -> CrashFile:
        if path not in self.files:
            if not create:
                raise FileNotFoundError(path)
            self.check()
            self.files[path] = _Content()
        return CrashFile(self, self.files[path])

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self.files[path].now)

    def write_private(self, path: Path, data: bytes) -> None:
        self.write_atomically(path, data)

    def write_atomically(self, path: Path, data: bytes) -> None:
        self.check()
        content = self.files[path] = _Content()
        content.now = bytearray(data)
        content.synced = data
        self.named.add(path)

    def rename(self, source: Path, target: Path) -> None:
        self.check()
        self.files[target] = self.files.pop(source)
        if source in self.named:
            self.named.discard(source)
            self.named.add(target)

    def exists(self, path: Path) -> bool:
        return path in self.files

    def list_dir(self, path: Path) -> list[str]:
        return sorted(file.name for file in self.files if file.parent == path)

    def make_dirs(self, path: Path) -> None:
        return None

    def remove(self, path: Path) -> None:
        self.files.pop(path, None)
        self.named.discard(path)

    def sync_dir(self, path: Path) -> None:
        self.named.update(file for file in self.files if file.parent == path)
