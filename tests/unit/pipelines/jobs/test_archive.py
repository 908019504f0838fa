"""What a compaction that was cut short left behind goes before the next run's first batch."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.pipelines.context import JobContext
from ottla.pipelines.files import FileEntry
from ottla.pipelines.jobs import archive
from ottla.pipelines.spec import Archive, Pipeline
from ottla.pipelines.spec_keys import Source

QUERY = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Files:
    """Names without contents, in the place of Hadoop's file systems."""

    def __init__(self, *names: str) -> None:
        self.root = "/archive"
        self.paths = [f"/archive/date=2026-01-31/{name}" for name in names]

    def walk(self, _path: str) -> list[FileEntry]:
        return [FileEntry(path, 1) for path in self.paths]

    def remove(self, path: str) -> None:
        self.paths.remove(path)


@pytest.mark.parametrize("joined_up_to", [2, 3])
def test_files_that_were_joined_are_removed_before_the_query_starts(
    monkeypatch: pytest.MonkeyPatch, joined_up_to: int
) -> None:
    batches = [f"b-{QUERY}-{number:09d}-00000.parquet" for number in range(5)]
    joined = f"c-{QUERY}-000000000-{joined_up_to:09d}-00000.parquet"
    files = Files(*batches, joined)
    monkeypatch.setattr(archive, "file_store", lambda *_: files)
    monkeypatch.setattr(archive, "with_time_columns", lambda frame, *_: frame)
    monkeypatch.setattr(archive, "count_rows_out", lambda frame: frame)
    monkeypatch.setattr(JobContext, "read_stream", lambda *_: None)
    job = Archive(from_=(Source("t", "t"),), path="/archive")
    spark: Any = None
    archive.streams(JobContext(spark, Pipeline()), job)
    names = [path.rsplit("/", 1)[1] for path in files.paths]
    assert names == [*batches[joined_up_to + 1 :], joined]
