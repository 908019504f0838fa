"""Names of an archive's files, and which of them compaction may join. No IO here.

`b-<query>-<batch>-<n>.parquet` holds rows of one micro-batch; a batch that runs again first removes
what its earlier attempt left. `c-<query>-<first>-<last>-<n>.parquet` holds the rows of the batches
from `first` to `last` of one folder. A file whose batches are covered by a compacted file of the
same folder is a leftover of a compaction that was cut short, and is removed before anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.pipelines.files import FileEntry

_NAME = re.compile(
    r"(?P<kind>[bc])-(?P<query>[0-9a-f-]{36})-(?P<first>\d{9})"
    r"(?:-(?P<last>\d{9}))?-(?P<number>\d{5})\.parquet"
)


class ArchiveFile(NamedTuple):
    entry: FileEntry
    is_compacted: bool
    query: str
    first: int
    last: int


class Compaction(NamedTuple):
    """Small files of one folder, and the file that takes their place."""

    folder: str
    files: tuple[ArchiveFile, ...]
    target: str


def batch_file(query: str, batch: int, number: int) -> str:
    return f"b-{query}-{batch:09d}-{number:05d}.parquet"


def joined_file(query: str, first: int, last: int) -> str:
    return f"c-{query}-{first:09d}-{last:09d}-00000.parquet"


def parse_file(entry: FileEntry) -> ArchiveFile | None:
    """None for files that are not an archive job's."""
    found = _NAME.fullmatch(entry.name)
    if found is None:
        return None
    first = int(found["first"])
    last = first if found["last"] is None else int(found["last"])
    return ArchiveFile(entry, found["kind"] == "c", found["query"], first, last)


def of_batch(entries: Iterable[FileEntry], query: str, batch: int) -> list[str]:
    """What an earlier attempt of a batch left."""
    files = filter(None, map(parse_file, entries))
    return [
        f.entry.path for f in files if not f.is_compacted and f.query == query and f.first == batch
    ]


def leftovers(entries: Iterable[FileEntry]) -> list[str]:
    """Files whose rows stand in a compacted file beside them as well."""
    files = list(filter(None, map(parse_file, entries)))
    joined = [f for f in files if f.is_compacted]
    return [
        f.entry.path
        for f in files
        if any(
            f.entry != c.entry
            and f.entry.folder == c.entry.folder
            and f.query == c.query
            and c.first <= f.first
            and f.last <= c.last
            and f.is_compacted <= (f.last - f.first < c.last - c.first)
            for c in joined
        )
    ]


def later(
    entries: Iterable[FileEntry], query: str, committed: int, planned: int
) -> list[ArchiveFile]:
    """Files with rows of batches that a checkpoint does not know of, which ends with the batch
    `committed` and may have begun `planned` after it. That one runs again and replaces its files,
    but only those of its own name: a joined file that holds it as well is later too."""
    own = [f for f in filter(None, map(parse_file, entries)) if f.query == query]
    return [f for f in own if f.last > (committed if f.is_compacted else max(committed, planned))]


def plan_compactions(
    entries: Iterable[FileEntry], query: str, before: int, least_files: int, small_bytes: int
) -> list[Compaction]:
    """Folders where at least `least_files` small files of batches below `before` lie in a row.

    Only a run of batches without a large file between is joined, so that the range in the name
    of the new file covers exactly the files that it replaces.
    """
    folders: dict[str, list[ArchiveFile]] = {}
    for file in filter(None, map(parse_file, entries)):
        if file.query == query and file.last < before:
            folders.setdefault(file.entry.folder, []).append(file)
    plans = []
    for folder, files in sorted(folders.items()):
        for run in _runs(sorted(files, key=lambda f: (f.first, f.entry.name)), small_bytes):
            if len(run) >= max(least_files, 2):
                first, last = run[0].first, max(file.last for file in run)
                target = f"{folder}/{joined_file(query, first, last)}"
                plans.append(Compaction(folder, tuple(run), target))
    return plans


def _runs(files: Sequence[ArchiveFile], small_bytes: int) -> list[list[ArchiveFile]]:
    """Cuts the files at batches that hold a large one."""
    large = {
        batch
        for file in files
        if file.entry.size >= small_bytes
        for batch in (file.first, file.last)
    }
    runs: list[list[ArchiveFile]] = [[]]
    for file in files:
        if file.first in large or file.last in large:
            runs.append([])
        else:
            runs[-1].append(file)
    return runs
