"""Files where Spark's are: on this machine by the system's own calls, elsewhere (HDFS, an object
store) by Hadoop's client, which only a session with a JVM of its own can lend."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.pipelines.spec_keys import SpecError
from ottla.runtime import SystemDisk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FILE_SCHEMES = ("file://", "file:")
# Readers of Parquet and Spark itself pass over such names.
_HIDDEN = ("_", ".")


class FileEntry(NamedTuple):
    path: str
    size: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[1]

    @property
    def folder(self) -> str:
        return self.path.rsplit("/", 1)[0]


class FileStore(Protocol):
    """The file system that `root` is on."""

    root: str

    def exists(self, path: str) -> bool: ...

    def walk(self, path: str) -> Iterator[FileEntry]:
        """All files below a folder, leaving out folders whose names begin with "_" or "."."""

    def folders(self, path: str) -> list[str]:
        """The names of the folders in a folder, without hidden ones."""

    def read_text(self, path: str) -> str:
        """A small file; raises OSError or ValueError where it cannot be read as text."""

    def write_text(self, path: str, text: str) -> None:
        """A small file, whole or not at all; its folder is made."""

    def move(self, source: str, target: str) -> None:
        """Renames a file or folder; the target's folder is made."""

    def remove(self, path: str) -> None:
        """A file or a folder with all that is in it; what is not there is as good."""


def local_path(path: str) -> Path | None:
    """None where the path is on another file system than this machine's."""
    for scheme in _FILE_SCHEMES:
        if path.startswith(scheme):
            return Path(path.removeprefix(scheme))
    return None if "://" in path else Path(path)


def for_spark(path: str) -> str:
    """A path of this machine says so: to a Spark whose default is HDFS it would be one there. A
    relative one is meant from here, where the JVM may not be, and `file://.` names a machine."""
    if "://" in path or path.startswith(_FILE_SCHEMES):
        return path
    return f"file://{Path(path).absolute()}"


def file_store(spark: SparkSession | None, root: str) -> FileStore:
    """Raises SpecError for a path that cannot be had through this session."""
    here = local_path(root)
    if here is not None:
        return LocalFiles(here)
    if spark is None or not _has_jvm(spark):
        raise SpecError(
            f"{root}: through Spark Connect only paths of this machine, or mounted on it, can be "
            "used: Connect lends no client for other file systems"
        )
    return HadoopFiles(spark, root)


def _has_jvm(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.session")


class LocalFiles:
    """This machine's. Hadoop keeps a checksum beside every file that it writes and believes it:
    it goes with the file."""

    def __init__(self, root: Path) -> None:
        self.root = str(root.absolute())

    def exists(self, path: str) -> bool:
        return Path(path).exists()

    def walk(self, path: str) -> Iterator[FileEntry]:
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            if entry.name.startswith(_HIDDEN):
                continue
            if entry.is_dir():
                yield from self.walk(entry.path)
                continue
            try:
                yield FileEntry(entry.path, entry.stat().st_size)
            except FileNotFoundError:  # removed since
                continue

    def folders(self, path: str) -> list[str]:
        try:
            entries = list(os.scandir(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(e.name for e in entries if e.is_dir() and not e.name.startswith(_HIDDEN))

    def read_text(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def write_text(self, path: str, text: str) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        SystemDisk().write_atomically(Path(path), text.encode())

    def move(self, source: str, target: str) -> None:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        _checksum_of(target).unlink(missing_ok=True)
        Path(source).replace(target)
        if _checksum_of(source).exists():
            _checksum_of(source).replace(_checksum_of(target))

    def remove(self, path: str) -> None:
        if Path(path).is_dir() and not Path(path).is_symlink():
            shutil.rmtree(path, ignore_errors=True)
            return
        Path(path).unlink(missing_ok=True)
        _checksum_of(path).unlink(missing_ok=True)


def _checksum_of(path: str) -> Path:
    file = Path(path)
    return file.parent / f".{file.name}.crc"


class HadoopFiles:
    """Any file system that Spark knows, by its own settings."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        settings = spark.sparkContext._jsc.hadoopConfiguration()
        self._system = self._path(root).getFileSystem(settings)
        self.root = str(self._system.makeQualified(self._path(root)).toString())

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def walk(self, path: str) -> Iterator[FileEntry]:
        for status in self._entries(path):
            place = str(status.getPath().toString())
            if status.isDirectory():
                yield from self.walk(place)
            else:
                yield FileEntry(place, int(status.getLen()))

    def folders(self, path: str) -> list[str]:
        entries = [status for status in self._entries(path) if status.isDirectory()]
        return sorted(str(status.getPath().getName()) for status in entries)

    def _entries(self, path: str) -> list[Any]:
        if not self.exists(path):
            return []
        listed = self._system.listStatus(self._path(path))
        return [s for s in listed if not str(s.getPath().getName()).startswith(_HIDDEN)]

    def read_text(self, path: str) -> str:
        stream = self._system.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write_text(self, path: str, text: str) -> None:
        """An object store shows a file when it is closed; on HDFS a new one comes by renaming."""
        aside = f"{path}.tmp"
        stream = self._system.create(self._path(aside), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.remove(path)
        self.move(aside, path)

    def move(self, source: str, target: str) -> None:
        folder = self._path(target).getParent()
        self._system.mkdirs(folder)
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed to {target}")

    def remove(self, path: str) -> None:
        self._system.delete(self._path(path), True)
