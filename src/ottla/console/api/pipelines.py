"""The page Pipelines: which Spark pipelines run, and how do they go?

They announce themselves by files in a folder of the user who runs this console, or were named by
--pipeline. What a browser says never decides which address is asked.
`docs/adr/0043-pipelines-in-the-console.md`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ottla.console.run_folder import HTTP_PATH, MAX_BYTES, VERSION, announcements
from ottla.console.web.live import Snapshots, Source
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

_ASK_TIMEOUT_S = 3.0
_MAX_FILES = 64
_MAX_HEAD_BYTES = 16 * 1024
_MAX_JOBS = 500


class Job(msgspec.Struct):
    """`outside` is what it reads or writes that is no topic; without `lag` Spark cannot say."""

    name: str
    kind: str
    state: str
    reads: list[str] = []
    writes: list[str] = []
    dead_letter: str | None = None
    outside: str | None = None
    rows_in: int = 0
    rows_out: int | None = None
    rows_per_s: float = 0.0
    lag: int | None = None
    batch_s: float | None = None
    batches: int = 0
    restarts: int = 0
    dead_letters: int | None = None
    error: str | None = None


class Pipeline(msgspec.Struct):
    version: int
    pid: int
    name: str
    bootstrap_servers: str
    started_ms: int
    updated_ms: int
    jobs: list[Job]
    spark_ui: str | None = None
    # The address by which it was asked; null for one of this machine that announced itself.
    address: str | None = None


class Pipelines(msgspec.Struct):
    pipelines: list[Pipeline]
    # Addresses of --pipeline that did not answer, in words.
    problems: list[str]
    # Those with topics that whoever asks may not see.
    hidden: int


async def running(call: Call) -> Pipelines:
    found = list(announced(announcements(os.environ)))
    problems = []
    asked = await asyncio.gather(*(_ask(address) for address in call.settings.pipelines))
    for address, answer in zip(call.settings.pipelines, asked, strict=True):
        if isinstance(answer, str):
            problems.append(f"{address}: {answer}")
        elif all(one.pid != answer.pid or one.name != answer.name for one in found):
            answer.address = address
            found.append(answer)
    shown = await _visible(call, found)
    return Pipelines(
        sorted(shown, key=lambda one: (one.name, one.pid)), problems, len(found) - len(shown)
    )


def decode(text: bytes) -> Pipeline:
    """Raises ValueError for what is no announcement that this console understands."""
    try:
        pipeline = msgspec.json.decode(text, type=Pipeline)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    if pipeline.version != VERSION or len(pipeline.jobs) > _MAX_JOBS:
        raise ValueError("another version")
    # Whoever wrote it, the page has a link made of it.
    if pipeline.spark_ui is not None and not pipeline.spark_ui.startswith(("http://", "https://")):
        pipeline.spark_ui = None
    return pipeline


def announced(folder: Path | None) -> Iterator[Pipeline]:
    """Of files that are this user's own, of processes that live."""
    if folder is None:
        return
    try:
        about = folder.lstat()
        if about.st_uid != os.getuid() or not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o022:
            return
        names = sorted(path.name for path in folder.glob("*.json"))
    except OSError:
        return
    for name in names[:_MAX_FILES]:
        pid = name.removesuffix(".json")
        if not (pid.isascii() and pid.isdecimal() and len(pid) < 10 and _lives(int(pid))):
            continue
        with contextlib.suppress(OSError, ValueError):
            pipeline = decode(_read_own(folder / name))
            if pipeline.pid == int(pid):
                yield pipeline


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False  # somebody else's: not the one that wrote the file
    except OSError:
        return False
    return pid > 0


def _read_own(path: Path) -> bytes:
    """No link, no pipe to wait at, not more than there may be; raises OSError or ValueError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
            raise ValueError("not a file of this user's")
        text = file.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError("too large")
    return text


async def _ask(address: str) -> Pipeline | str:
    """What serves its metrics there, or what is wrong with it."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        return "it is HOST:PORT, as `ottla pipeline run --metrics` has it"
    try:
        async with asyncio.timeout(_ASK_TIMEOUT_S):
            return decode(await _fetch(host, int(port), address))
    except TimeoutError:
        return f"no answer within {_ASK_TIMEOUT_S:g} s"
    except OSError as error:
        return f"cannot be reached: {error.strerror or error}"
    except (ValueError, EOFError, asyncio.LimitOverrunError):
        return "what answers there is no pipeline of this version of Ottla"


async def _fetch(host: str, port: int, address: str) -> bytes:
    reader, writer = await asyncio.open_connection(host, port, limit=_MAX_HEAD_BYTES)
    try:
        request = f"GET {HTTP_PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("latin-1", "replace"))
        head = await reader.readuntil(b"\r\n\r\n")
        # A redirect would be an address that nobody gave us: only the answer itself counts.
        if head.split(b" ", 2)[1:2] != [b"200"]:
            raise ValueError("no document")
        body = bytearray()
        while chunk := await reader.read(64 * 1024):
            body += chunk
            if len(body) > MAX_BYTES:
                raise ValueError("too large")
        return bytes(body)
    finally:
        writer.close()


async def _visible(call: Call, found: list[Pipeline]) -> list[Pipeline]:
    """On a cluster with users, those whose topics the visitor may all see."""
    if not call.settings.needs_login or not found:
        return found
    names = {topic for one in found for topic in topics_of(one)}
    answer = await call.admin.cluster.metadata(sorted(names))
    closed = {
        topic.name
        for topic in answer.topics
        if topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    }
    return [one for one in found if not closed & topics_of(one)]


def topics_of(pipeline: Pipeline) -> set[str]:
    return {
        topic
        for job in pipeline.jobs
        for topic in (*job.reads, *job.writes, *([job.dead_letter] if job.dead_letter else []))
    }


def _open(call: Call) -> Source:
    return Snapshots(lambda: running(call))


ROUTES = [Route("GET", "/pipelines", running, "Running Spark pipelines", answer=Pipelines)]
FEEDS = [Feed("pipelines", "Running Spark pipelines", 1.0, _open, message=Pipelines)]
