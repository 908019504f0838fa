"""Files where Spark's are, on this machine, HDFS or an object store, by Hadoop's own client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class FileEntry(NamedTuple):
    path: str
    size: int

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[1]

    @property
    def folder(self) -> str:
        return self.path.rsplit("/", 1)[0]


class FileStore:
    """The file system that `root` is on."""

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
        """All files below a folder, leaving out folders whose names begin with "_" or "."."""
        if not self.exists(path):
            return
        for status in self._system.listStatus(self._path(path)):
            name = str(status.getPath().getName())
            if name[:1] in ("_", "."):
                continue
            place = str(status.getPath().toString())
            if status.isDirectory():
                yield from self.walk(place)
            else:
                yield FileEntry(place, int(status.getLen()))

    def read_text(self, path: str) -> str:
        """A small file."""
        stream = self._system.open(self._path(path))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def move(self, source: str, target: str) -> None:
        """Renames; the target must not be there."""
        folder = self._path(target).getParent()
        self._system.mkdirs(folder)
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"{source} cannot be renamed to {target}")

    def remove(self, path: str) -> None:
        self._system.delete(self._path(path), True)
