"""Files, folders and functions that a pipeline names. Looks at this machine only; nothing is made.

Paths on other file systems (`hdfs://…`, `s3a://…`) are Spark's to look at.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.functions import check_takes, load_function
from ottla.pipelines.spec import (
    Archive,
    Audit,
    Ingest,
    Job,
    Mirror,
    Pipeline,
    Profile,
    Restore,
    Transform,
)
from ottla.pipelines.spec_keys import Address, SpecError

_GLOB = frozenset("*?[{")
_FILE_SCHEME = "file://"


def find(pipeline: Pipeline) -> list[Problem]:
    problems = [Problem("", words) for words in _of_pipeline(pipeline)]
    for job in pipeline.jobs:
        problems += [Problem(job.name, words, bars_plan=True) for words in _of_job(pipeline, job)]
    return problems


def _of_pipeline(pipeline: Pipeline) -> Iterator[str]:
    yield from _folder_to_write("checkpoints", pipeline.checkpoints)
    address = pipeline.metrics_address()
    if address is not None and address.port:
        yield from _port(address)


def _port(address: Address) -> Iterator[str]:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            yield f"metrics: {address.host}:{address.port} cannot be used: {reason}"


def _of_job(pipeline: Pipeline, job: Job) -> Iterator[str]:
    if isinstance(job, Mirror | Restore) and pipeline.topic_format_of(job) != "ottla":
        yield f"{job.kind} needs format: ottla; the other one writes no timestamps"
    if isinstance(job, Ingest) and job.path is not None:
        yield from _to_read(job.path, needs_files=job.schema is None and job.format != "text")
    if isinstance(job, Archive):
        yield from _folder_to_write("path", job.path)
    if isinstance(job, Restore):
        yield from _archive_to_read(job.path)
    if isinstance(job, Profile | Audit):
        yield from _file_to_write("json", job.json)
    if isinstance(job, Profile):
        yield from _file_to_write("html", job.html)
    if isinstance(job, Transform) and job.function is not None:
        yield from _function(job.function, len(job.from_))


def _function(place: str, topics: int) -> Iterator[str]:
    try:
        check_takes(load_function(place), place, topics)
    except SpecError as error:
        yield str(error)


def local(path: str) -> Path | None:
    """None where the path is not this machine's, or stands for many."""
    text = path.removeprefix(_FILE_SCHEME)
    return None if "://" in text or _GLOB & set(text) else Path(text)


def _to_read(path: str, *, needs_files: bool) -> Iterator[str]:
    folder = local(path)
    if folder is None:
        return
    if not folder.exists():
        yield f"path: there is no folder {folder}: make it, files may come later"
    elif not os.access(folder, os.R_OK):
        yield f"path: {folder} cannot be read: Permission denied"
    elif needs_files and folder.is_dir() and not _files(folder):
        yield f"'schema' is missing, and there are no files in {folder} that would tell it"


def _files(folder: Path) -> bool:
    """Whether Spark would find any: it passes over names that begin with "_" or "."."""
    return any(not name.startswith(("_", ".")) for _, _, names in os.walk(folder) for name in names)


def _archive_to_read(path: str) -> Iterator[str]:
    folder = local(path)
    if folder is None:
        return
    if not folder.exists():
        yield f"path: there is no folder {folder}"
    elif folder.is_dir() and not any(folder.rglob("*.parquet")):
        yield f"path: there is no Parquet file in {folder}"


def _folder_to_write(key: str, path: str) -> Iterator[str]:
    folder = local(path)
    if folder is None:
        return
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        yield f"{key}: {there} is not a folder"
    elif not os.access(there, os.W_OK | os.X_OK):
        yield f"{key}: {there} cannot be written: Permission denied"


def _file_to_write(key: str, path: str | None) -> Iterator[str]:
    if path is None:
        return
    file = Path(path)
    if file.is_dir():
        yield f"{key}: {file} is a folder, a file is to be written"
    elif not file.parent.is_dir():
        yield f"{key}: there is no folder {file.parent}"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        yield f"{key}: {file} cannot be written: Permission denied"
