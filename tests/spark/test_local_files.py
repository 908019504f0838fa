"""Files of this machine as `session()` has Hadoop write them, beside Hadoop's own way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Hadoop's own classes are used here")

OURS = "ottla.spark.OttlaLocalFiles$Context"
HADOOP = "org.apache.hadoop.fs.local.LocalFs"


class Files:
    """Hadoop's FileContext, as Spark's checkpoints use it."""

    def __init__(self, spark: SparkSession, implementation: str) -> None:
        jvm: Any = spark.sparkContext._jvm
        conf = jvm.org.apache.hadoop.conf.Configuration()
        conf.set("fs.AbstractFileSystem.file.impl", implementation)
        self._jvm = jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(conf)
        self._flags = jvm.java.util.EnumSet.of(
            jvm.org.apache.hadoop.fs.CreateFlag.CREATE,
            jvm.org.apache.hadoop.fs.CreateFlag.OVERWRITE,
        )
        options = jvm.org.apache.hadoop.fs.Options.CreateOpts
        self._no_options = spark.sparkContext._gateway.new_array(options, 0)
        self._rename = jvm.org.apache.hadoop.fs.Options.Rename
        self._spark = spark

    def write(self, path: Path, text: str) -> None:
        out = self._context.create(self._path(path.as_uri()), self._flags, self._no_options)
        out.writeBytes(text)
        out.close()

    def read(self, path: Path) -> str:
        source = self._context.open(self._path(path.as_uri()))
        try:
            return bytes(source.readAllBytes()).decode()
        finally:
            source.close()

    def mkdir(self, path: Path, mode: int) -> None:
        permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:04o}")
        self._context.mkdir(self._path(path.as_uri()), permission, True)

    def chmod(self, path: Path, mode: int) -> None:
        permission = self._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:04o}")
        self._context.setPermission(self._path(path.as_uri()), permission)

    def rename(self, source: Path, target: Path, *, overwrite: bool) -> None:
        how = self._rename.OVERWRITE if overwrite else self._rename.NONE
        options = self._spark.sparkContext._gateway.new_array(self._rename, 1)
        options[0] = how
        self._context.rename(self._path(source.as_uri()), self._path(target.as_uri()), options)

    def is_link(self, path: Path) -> bool:
        return bool(self._context.getFileLinkStatus(self._path(path.as_uri())).isSymlink())


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> Files:
    return Files(spark, OURS)


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getName())


def _a_life_of_files(files: Files, folder: Path) -> list[object]:
    """Everything that a checkpoint does to files, and what goes wrong with some of it."""
    first, second, folder_made = folder / "first", folder / "second", folder / "a" / "b"
    seen: list[object] = []

    def note(work: Callable[[], object]) -> None:
        seen.append(_outcome(work))
        seen.append(
            sorted(
                (str(path.relative_to(folder)), oct(path.lstat().st_mode))
                for path in folder.rglob("*")
            )
        )

    note(lambda: files.write(first, "one"))
    note(lambda: files.rename(first, second, overwrite=False))
    note(lambda: files.read(second))
    note(lambda: files.write(first, "two"))
    note(lambda: files.rename(first, second, overwrite=False))
    note(lambda: files.rename(first, second, overwrite=True))
    note(lambda: files.read(second))
    note(lambda: files.rename(folder / "nowhere", second, overwrite=True))
    note(lambda: files.write(folder / "no" / "such" / "folder", "three"))
    note(lambda: files.mkdir(folder_made, 0o750))
    for mode in (0o600, 0o644, 0o777, 0o000, 0o1755):
        note(lambda mode=mode: files.chmod(second, mode))  # type: ignore[misc]
    note(lambda: files.chmod(second, 0o644))
    note(lambda: files.chmod(folder / "nowhere", 0o644))
    (folder / "link").symlink_to(second)
    (folder / "loose").symlink_to(folder / "nowhere")
    for name in ("link", "loose", "second", "nowhere"):
        note(lambda name=name: files.is_link(folder / name))  # type: ignore[misc]
    second.write_text("owt")  # a damaged disk
    note(lambda: files.read(second))
    return seen


def test_they_do_what_hadoop_s_own_do(spark: SparkSession, ours: Files, tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "hadoop").mkdir()
    hadoop = _a_life_of_files(Files(spark, HADOOP), tmp_path / "hadoop")
    assert _a_life_of_files(ours, tmp_path / "ours") == hadoop
    assert "org.apache.hadoop.fs.FileAlreadyExistsException" in hadoop


@pytest.fixture
def processes(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[[], list[str]]]:
    """The commands that the JVM has started meanwhile, by its own flight recorder."""
    jvm: Any = spark.sparkContext._jvm
    recording = jvm.jdk.jfr.Recording()
    recording.enable("jdk.ProcessStart")
    recording.start()

    def stop() -> list[str]:
        recording.stop()
        file = jvm.java.io.File(str(tmp_path / "recording.jfr")).toPath()
        recording.dump(file)
        events = jvm.jdk.jfr.consumer.RecordingFile.readAllEvents(file)
        return [str(event.getString("command")) for event in events]

    yield stop
    recording.close()


def _small_stream(spark: SparkSession, folder: Path) -> None:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    writer = source.writeStream.format("parquet").option("path", str(folder / "rows"))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        while len(query.recentProgress) < 3:
            assert query.exception() is None
            query.awaitTermination(1)
    finally:
        query.stop()


def test_a_stream_starts_no_process_for_its_files(
    spark: SparkSession, tmp_path: Path, processes: Callable[[], list[str]]
) -> None:
    _small_stream(spark, tmp_path)
    assert list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    assert list((tmp_path / "checkpoint" / "commits").glob(".*.crc")), "checksums are kept"
    assert [command for command in processes() if "chmod" in command or "readlink" in command] == []


def test_hadoop_s_own_classes_start_some(
    spark: SparkSession, tmp_path: Path, processes: Callable[[], list[str]]
) -> None:
    """So that the test above can fail; when this one does, Hadoop has changed."""
    Files(spark, HADOOP).write(tmp_path / "file", "text")
    assert [command for command in processes() if "chmod" in command]
