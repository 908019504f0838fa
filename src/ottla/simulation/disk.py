"""A disk in memory: what was not synced may be gone after a power cut, the last write torn.

Contents belong to files, names to folders, as on a POSIX file system: `File.sync` keeps the
contents, `sync_dir` keeps the names. A killed process loses nothing, only the power does.
`ProcessDisk` is the Disk port as one process sees it; it ends with the process.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from ottla.runtime import DirInUse

# Of the writes since the last sync, how many a power cut takes back.
_LOST_WRITE_SHARE = 0.5
# Of the folders with changed names since the last sync, how many go back to the old names.
_LOST_NAMES_SHARE = 0.5


class _File:
    __slots__ = ("data", "mtime_ms", "undo")

    def __init__(self, now_ms: int) -> None:
        self.data = bytearray()
        self.mtime_ms = now_ms
        # How to take back each unsynced change, newest last:
        # (position, bytes before, bytes written, size before).
        self.undo: list[tuple[int, bytes, bytes, int]] = []

    def write(self, data: bytes, position: int) -> None:
        now = self.data
        size = len(now)
        self.undo.append((position, bytes(now[position : position + len(data)]), data, size))
        if size < position:
            now.extend(bytes(position - size))
        now[position : position + len(data)] = data

    def truncate(self, size: int) -> None:
        now = self.data
        if size < len(now):
            self.undo.append((size, bytes(now[size:]), b"", len(now)))
            del now[size:]
        else:
            self.undo.append((len(now), b"", bytes(size - len(now)), len(now)))
            now.extend(bytes(size - len(now)))

    def crash(self, draw: random.Random) -> None:
        """Back to the synced state, then some of the later writes, the last of them torn."""
        now = self.data
        for position, before, _, size in reversed(self.undo):
            if len(now) < size:
                now.extend(bytes(size - len(now)))
            now[position : position + len(before)] = before
            del now[size:]
        for position, _, written, _ in self.undo:
            if draw.random() < _LOST_WRITE_SHARE:
                continue
            kept = written[: draw.randrange(len(written) + 1)]
            if kept and len(now) < position:
                now.extend(bytes(position - len(now)))
            now[position : position + len(kept)] = kept
        self.undo.clear()


class _Folder:
    __slots__ = ("entries", "synced")

    def __init__(self) -> None:
        self.entries: dict[str, _File | _Folder] = {}
        self.synced: dict[str, _File | _Folder] | None = {}

    def changing(self) -> dict[str, _File | _Folder]:
        """The entries, about to be changed; the synced names are kept aside first."""
        if self.synced is None:
            self.synced = dict(self.entries)
        return self.entries

    def sync(self) -> None:
        self.synced = None

    def crash(self, draw: random.Random) -> None:
        if self.synced is not None and draw.random() < _LOST_NAMES_SHARE:
            self.entries = self.synced
        self.synced = None
        for entry in self.entries.values():
            entry.crash(draw)


class SimDisk:
    """The disk of one host; it outlives the processes that use it."""

    def __init__(self, seed: str, now_ms: Callable[[], int]) -> None:
        self.root = _Folder()
        self.root.sync()
        self.now_ms = now_ms
        self._random = random.Random(f"{seed}/disk")
        self.syncs = 0

    def power_cut(self) -> None:
        self.root.crash(self._random)

    def find(self, path: Path) -> _File | _Folder | None:
        entry: _File | _Folder = self.root
        for name in path.parts[1:]:
            if not isinstance(entry, _Folder) or name not in entry.entries:
                return None
            entry = entry.entries[name]
        return entry

    def folder_names(self, path: Path) -> list[str]:
        """The folders in a folder, for those who look from outside."""
        found = self.find(path)
        entries = found.entries if isinstance(found, _Folder) else {}
        return sorted(name for name, entry in entries.items() if isinstance(entry, _Folder))

    def folder(self, path: Path) -> _Folder:
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if not isinstance(found, _Folder):
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
        return found

    def file(self, path: Path) -> _File:
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if not isinstance(found, _File):
            raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
        return found


class SimFile:
    """An open file of a process."""

    __slots__ = ("_disk", "_file")

    def __init__(self, disk: ProcessDisk, file: _File) -> None:
        self._disk = disk
        self._file = file

    def append(self, data: bytes | bytearray | memoryview) -> None:
        self.write_at(data, len(self._file.data))

    def read_at(self, size: int, position: int) -> bytes:
        return bytes(self._file.data[position : position + size])

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self._file.mtime_ms = self._disk.host().now_ms()
        self._file.write(bytes(data), position)

    def write_parts_at(self, parts: Sequence[memoryview], position: int) -> int:
        start = position
        for part in parts:
            self.write_at(part, position)
            position += len(part)
        return position - start

    def truncate(self, size: int) -> None:
        self._disk.host()
        self._file.truncate(size)

    def size(self) -> int:
        return len(self._file.data)

    def send_at(self, socket_fd: int, size: int, position: int) -> int:
        raise OSError(errno.EOPNOTSUPP, "there are no sockets")

    def is_cached(self, position: int) -> bool:
        return True

    def prefetch(self, position: int, size: int) -> None:
        """Everything is there."""

    def uncache(self, position: int, size: int) -> None:
        """Everything is in memory, and stays."""

    def sync(self) -> None:
        self._disk.host().syncs += 1
        self._file.undo.clear()

    def close(self) -> None:
        """Nothing to give back."""


class ProcessDisk:
    """The Disk port of one process; unusable once that process is gone."""

    def __init__(self, disk: SimDisk, is_alive: Callable[[], bool]) -> None:
        self._disk = disk
        self._is_alive = is_alive
        self._locked: set[Path] = set()

    def host(self) -> SimDisk:
        if not self._is_alive():
            raise OSError(errno.EIO, "the process is gone")
        return self._disk

    def open(self, path: Path, *, create: bool = True) -> SimFile:
        disk = self.host()
        if create and disk.find(path) is None:
            disk.folder(path.parent).changing()[path.name] = _File(disk.now_ms())
        return SimFile(self, disk.file(path))

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self.host().file(path).data)

    def write_private(self, path: Path, data: bytes) -> None:
        self.write_atomically(path, data)

    def write_atomically(self, path: Path, data: bytes) -> None:
        """The rename is what makes it atomic; file and folder are synced."""
        disk = self.host()
        folder = disk.folder(path.parent)
        file = _File(disk.now_ms())
        file.data = bytearray(data)
        folder.changing()[path.name] = file
        folder.sync()

    def exists(self, path: Path) -> bool:
        return self.host().find(path) is not None

    def is_dir(self, path: Path) -> bool:
        return isinstance(self.host().find(path), _Folder)

    def size(self, path: Path) -> int:
        return len(self.host().file(path).data)

    def mtime_ms(self, path: Path) -> int:
        return self.host().file(path).mtime_ms

    def size_and_mtime_ms(self, folder: Path, place: str) -> tuple[int, int]:
        file = self.host().file(folder / place)
        return len(file.data), file.mtime_ms

    def set_mtime_ms(self, path: Path, mtime_ms: int) -> None:
        self.host().file(path).mtime_ms = mtime_ms

    def list_dir(self, path: Path) -> list[str]:
        return sorted(self.host().folder(path).entries)

    def make_dirs(self, path: Path) -> None:
        folder = self.host().root
        for name in path.parts[1:]:
            entry = folder.entries.get(name)
            if entry is None:
                entry = folder.changing()[name] = _Folder()
            if not isinstance(entry, _Folder):
                raise FileExistsError(errno.EEXIST, "File exists", str(path))
            folder = entry

    def rename(self, source: Path, target: Path) -> None:
        disk = self.host()
        entry = disk.find(source)
        if entry is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(source))
        disk.folder(target.parent).changing()[target.name] = entry
        del disk.folder(source.parent).changing()[source.name]

    def remove(self, path: Path) -> None:
        disk = self.host()
        if disk.find(path) is not None:
            disk.file(path)
            del disk.folder(path.parent).changing()[path.name]

    def remove_tree(self, path: Path) -> None:
        disk = self.host()
        if disk.find(path) is not None:
            disk.folder(path)
            del disk.folder(path.parent).changing()[path.name]

    def sync_dir(self, path: Path) -> None:
        self.host().folder(path).sync()

    def sync_all(self, paths: Collection[Path]) -> None:
        """No more than was asked for, although a real file system may keep more."""
        disk = self.host()
        for path in paths:
            found = disk.find(path)
            if isinstance(found, _File):
                disk.syncs += 1
                found.undo.clear()
            elif found is not None:
                found.sync()

    def lock(self, folder: Path) -> DiskLock:
        """Stands in for the lock on a data folder: a host runs one process at a time."""
        return DiskLock(self._locked, folder)


class DiskLock:
    def __init__(self, locked: set[Path], folder: Path) -> None:
        if folder in locked:
            raise DirInUse(folder)
        locked.add(folder)
        self._locked = locked
        self._folder = folder

    def release(self) -> None:
        self._locked.discard(self._folder)
