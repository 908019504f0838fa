"""`ottla produce`: lines of text or JSON become records of a topic."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    flag,
    run_async,
    topic_argument,
    topic_failure,
)
from ottla.errors import KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.produce import TopicProducer
    from ottla.wire.records import Record

    Parse = Callable[[bytes, int], tuple[Record, int | None]]

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_CHUNK_BYTES = 256 * 1024
_CHUNKS_AHEAD = 16
# A line beyond this could not be stored with any setting of max.message.bytes that makes sense.
MAX_LINE_BYTES = 64 * 1024 * 1024
# Lines typed by hand are sent after this pause, not when a batch is full.
_IDLE_S = 0.02
_PROGRESS_EVERY_S = 0.5


@click.command("produce", help="Write lines of text as records to a topic.")
@topic_argument
@bootstrap_option
@command_config_option
@click.option(
    "--file", "path", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
    help="Read this file instead of standard input; '-' is standard input.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help='json: one object per line, {"key": …, "value": …, "headers": {…}, "partition": …, '
    '"timestamp": …}, all of them optional.',
)  # fmt: skip
@click.option("--key-separator", metavar="TEXT", help=r"What ends the key of a line, such as \t.")
@flag("headers", "Lines begin with headers, h1:v1,h2:v2, and a tab.")
@click.option("--null-marker", metavar="TEXT", help="The text that stands for a null key or value.")
@click.option(
    "--partition",
    type=click.IntRange(min=0),
    help="The partition to write to; without it, the key decides.",
)
@click.option(
    "--acks", type=click.Choice(["all", "1", "0", "-1"]), default="all", show_default=True,
    help="How many replicas must confirm a record; with all, none is stored twice.",
)  # fmt: skip
@click.option("--compression", type=click.Choice(_CODECS), default="none", show_default=True)
@click.option(
    "--timeout", type=click.IntRange(min=1), default=30_000, show_default=True, metavar="MS",
    help="How long a record may take.",
)  # fmt: skip
@flag("quiet", "No progress on standard error.")
def command(
    topic: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    path: Path | None,
    form: str,
    key_separator: str | None,
    headers: bool,
    null_marker: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    timeout: int,
    quiet: bool,
) -> None:
    from ottla.cli.data.record_text import TextFormat, parse_json_line, unescaped

    if form == "json" and (key_separator is not None or headers or null_marker is not None):
        raise click.UsageError("--key-separator, --headers and --null-marker go with text")
    if key_separator == "":
        raise click.UsageError("--key-separator is empty")
    parse: Parse = parse_json_line
    if form == "text":
        separator = None if key_separator is None else unescaped(key_separator)
        marker = None if null_marker is None else null_marker.encode()
        parse = TextFormat(separator, headers, marker).parse

    async def work() -> None:
        from ottla.client.produce import TopicProducer
        from ottla.runtime import system_runtime

        runtime = system_runtime()
        async with connect_admin(bootstrap_server, command_config) as admin:
            producer = TopicProducer(
                admin.cluster,
                topic,
                rng=runtime.random,
                acks=-1 if acks == "all" else int(acks),
                compression=_CODECS.index(compression),
                timeout_ms=timeout,
            )
            try:
                await producer.start()
            except KafkaError as error:
                raise topic_failure(topic, error) from None
            if partition is not None:
                producer.check_partition(partition)
            with _Input(path) as descriptor:
                progress = Progress(topic, quiet=quiet, is_typed=os.isatty(descriptor))
                source = Chunks(descriptor)
                try:
                    await _pump(source, producer, parse, partition, runtime.clock.now_ms, progress)
                except (OttlaError, OSError):
                    progress.end_line()
                    raise
            progress.finish(producer.acknowledged)

    run_async(work())


class _Input:
    """The descriptor of a file, or of standard input, which stays open."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor = -1

    def __enter__(self) -> int:
        if self._path is None or str(self._path) == "-":
            return sys.stdin.fileno()
        self._descriptor = os.open(self._path, os.O_RDONLY)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


class Chunks:
    """Bytes of a descriptor, read ahead by a thread: a terminal or a pipe may keep it waiting, and
    Ctrl-C must not wait for it."""

    def __init__(self, descriptor: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(_CHUNKS_AHEAD)
        threading.Thread(target=self._read, args=(descriptor,), daemon=True).start()

    async def next(self) -> bytes:
        """Empty at the end."""
        chunk = await self._queue.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _read(self, descriptor: int) -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            self._room.acquire()
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._queue.put_nowait, chunk)
            except RuntimeError:
                return  # the loop has ended, and with it all interest


async def _pump(
    source: Chunks,
    producer: TopicProducer,
    parse: Parse,
    partition: int | None,
    now_ms: Callable[[], int],
    progress: Progress,
) -> None:
    lines = Lines()
    number = 0
    ended = False
    while not ended:
        try:
            # Nobody waits for a batch to fill up: what is there is sent in a pause of the input.
            async with asyncio.timeout(_IDLE_S if producer.buffered else None):
                chunk = await source.next()
        except TimeoutError:
            await producer.flush()
            continue
        ended = not chunk
        for line in lines.last() if ended else lines.feed(chunk):
            number += 1
            try:
                record, own_partition = parse(line, now_ms())
                if own_partition is not None:
                    producer.check_partition(own_partition)
            except OttlaError as error:
                await producer.flush()
                raise OttlaError(_refused(number, error)) from None
            await producer.send(record, own_partition if partition is None else partition)
        progress.show(producer.acknowledged)
    await producer.flush()


def _refused(number: int, error: OttlaError) -> str:
    """Where to mend the input, and from where on to send it again."""
    before = number - 1
    written = "the line before it is" if before == 1 else f"the {before} lines before it are"
    return f"line {number}: {error}" + (f" ({written} written)" if before else "")


class Lines:
    """Bytes in pieces of any size to lines without their ends, `\\n` or `\\r\\n`."""

    def __init__(self) -> None:
        # The line that has no end yet, joined only once: a long one comes in many pieces.
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        head, end, tail = chunk.partition(b"\n")
        self._keep(head)
        if not end:
            return
        yield self._taken()
        *whole, rest = tail.split(b"\n")
        for line in whole:
            yield line.removesuffix(b"\r")
        self._keep(rest)

    def last(self) -> Iterator[bytes]:
        if self._size:
            yield self._taken()

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > MAX_LINE_BYTES:
            raise OttlaError(f"a line is longer than {MAX_LINE_BYTES} bytes")

    def _taken(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        return line.removesuffix(b"\r")


class Progress:
    """A running count on a terminal, unless lines are typed into it, and one line at the end."""

    def __init__(self, topic: str, *, quiet: bool, is_typed: bool) -> None:
        self._topic = topic
        self._quiet = quiet
        self._live = not quiet and not is_typed and sys.stderr.isatty()
        self._is_in_line = False
        self._loop = asyncio.get_running_loop()
        self._begun = self._shown = self._loop.time()
        if is_typed and not quiet:
            click.echo("One record per line; Ctrl-D ends.", err=True)

    def show(self, records: int) -> None:
        now = self._loop.time()
        if self._live and now - self._shown > _PROGRESS_EVERY_S:
            self._shown = now
            self._is_in_line = True
            click.echo(f"\r{_counted(records)}", err=True, nl=False)

    def end_line(self) -> None:
        """What comes next begins a line of its own."""
        if self._is_in_line:
            click.echo(err=True)

    def finish(self, records: int) -> None:
        if not self._quiet:
            seconds = self._loop.time() - self._begun
            begin = "\r" if self._live else ""
            click.echo(f"{begin}{_counted(records)} to {self._topic} in {seconds:.1f} s", err=True)


def _counted(records: int) -> str:
    return f"{records} record{'' if records == 1 else 's'}"
