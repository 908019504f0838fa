"""The page Messages: what is in a topic? Records are read without a group: nothing is committed."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from ottla.client.fetch import RecordReader
from ottla.client.offsets import LATEST, list_offsets
from ottla.client.partitioner import partition_of_key
from ottla.client.produce import TopicProducer
from ottla.console.commands import ottla
from ottla.console.records import topics, walk
from ottla.console.records.seen import MAX_BATCH_BYTES, Reading, Seen, decode
from ottla.console.records.shown import Message, message
from ottla.console.records.tail import Tail
from ottla.console.web.failures import ApiError, invalid, not_found
from ottla.console.web.live import Source
from ottla.console.web.routes import Attachment, Call, Feed, Route, command_line
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire.records import Record

READ_BYTES = 32 * 1024 * 1024
READ_S = 10.0
# Of one value in the page; a larger one is downloaded.
WHOLE_BYTES = 1024 * 1024
WRITE_BYTES = 24 * 1024 * 1024
MAX_NEW_HEADERS = 1000
_FETCH_BYTES = 512 * 1024
_MOST_PARTITION_BYTES = 8 * 1024 * 1024
# Longer lines are no good in a terminal.
_LINE_CHARACTERS = 2000
_FILE = "record.json"
_PRODUCE_MS = 10_000


class Where(msgspec.Struct):
    """Which records. `offset` and `time_ms` are where to begin; with `key` only its records count,
    and without `partitions` only the partition that Kafka's partitioner gives it."""

    partitions: str = ""
    order: Literal["newest", "oldest"] = "newest"
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None
    time_ms: int | None = None
    key: str | None = None
    key_format: Literal["text", "hex"] = "text"
    everywhere: bool = False
    committed: bool = False
    markers: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 50
    cursor: str | None = None


class Looked(msgspec.Struct):
    """How far: records and bytes that were read, in which partitions (None: in all)."""

    records: int
    bytes: int
    partitions: list[int] | None


class Span(msgspec.Struct):
    partition: int
    start: int
    end: int


class Page(msgspec.Struct):
    """`next` is the cursor of the next page, None where there is nothing more. `stopped` says why
    a page is shorter than it could be: bytes or time."""

    topic: str
    partition_count: int
    total: int
    records: list[Message]
    next: str | None
    stopped: str | None
    looked: Looked
    notes: list[str]
    spans: list[Span]


class TopicName(msgspec.Struct):
    name: str
    partitions: int
    is_internal: bool


async def names(call: Call) -> list[TopicName]:
    """Topics that can be looked into, by name."""
    answer = await call.admin.cluster.metadata(None)
    return [
        TopicName(topic.name or "", len(topic.partitions), topic.is_internal)
        for topic in sorted(answer.topics, key=lambda topic: topic.name or "")
        if not topic.error_code
    ]


async def browse(call: Call) -> Page:
    where: Where = call.query
    topic = call.path["topic"]
    cluster = call.admin.cluster
    now_s = asyncio.get_running_loop().time
    budget = walk.Budget(READ_BYTES, now_s() + READ_S, now_s)
    async with asyncio.timeout(2 * READ_S), call.access.reads:
        count = await topics.partition_count(cluster, topic)
        key = None if where.key is None else parse_data("key", where.key_format, where.key)
        chosen = topics.parse_partitions(where.partitions, count)
        if key is not None and not where.partitions and not where.everywhere:
            chosen = [partition_of_key(key, count)]
        newest = where.order == "newest"
        held, notes = await topics.bounds(cluster, topic, chosen, committed_only=where.committed)
        at = await _begin(call, held, newest)
        cursor = None if where.cursor is None else topics.parse_cursor(where.cursor, count)
        windows = topics.windows(held, newest=newest, at=at, cursor=cursor)
        terms = walk.Terms(
            cluster,
            budget,
            where.limit,
            where.markers,
            where.committed,
            None if key is None else lambda record: record.key == key,
            max(min(_FETCH_BYTES, _MOST_PARTITION_BYTES // max(len(windows), 1)), 1024),
        )
        ways = walk.ways(terms, windows, newest=newest)
        walked = await walk.walk(terms, ways, where.limit, newest=newest)
    return Page(
        topic,
        count,
        sum(end - start for start, end in held.values()),
        [message(seen) for seen in walked.records],
        topics.cursor_text(walked.cursor),
        walked.stopped,
        Looked(budget.looked, budget.bytes_read, chosen if len(chosen) < count else None),
        [*notes, *walked.notes][: walk.MAX_NOTES],
        [Span(tp.partition, start, end) for tp, (start, end) in held.items()],
    )


async def _begin(
    call: Call, held: dict[TopicPartition, topics.Held], newest: bool
) -> dict[TopicPartition, int] | None:
    where: Where = call.query
    if where.offset is not None:
        return dict.fromkeys(held, where.offset + newest)
    if where.time_ms is not None:
        return await topics.at_time(call.admin.cluster, held, where.time_ms + newest)
    return None


async def _read_one(call: Call, part_bytes: int) -> Seen:
    try:
        partition, offset = int(call.path["partition"]), int(call.path["offset"])
    except ValueError:
        raise not_found("Partition and offset are numbers.") from None
    tp = TopicPartition(call.path["topic"], partition)
    async with call.access.reads:
        count = await topics.partition_count(call.admin.cluster, tp.topic)
        if not 0 <= partition < count or not 0 <= offset < 2**63:
            raise not_found(f"There is no offset {offset} in partition {partition}.")
        reader = RecordReader(call.admin.cluster, {tp: offset}, timeout_ms=5000, partition_bytes=1)
        reading = Reading(offset, offset + 1, 1, markers=True, part_bytes=part_bytes)
        async with asyncio.timeout(READ_S):
            data = await walk.fetch_of(reader, tp)
            found = await decode(data, reading)
    if found.records:
        return found.records[0]
    if found.notes:
        raise ApiError(422, "NOT_READABLE", found.notes[0])
    raise not_found(f"Partition {partition} holds no record at offset {offset}.")


async def one(call: Call) -> Message:
    """With up to a megabyte of its value."""
    return message(await _read_one(call, WHOLE_BYTES))


class WhichPart(msgspec.Struct):
    part: Literal["key", "value"] = "value"


async def download(call: Call) -> Attachment:
    query: WhichPart = call.query
    seen = await _read_one(call, MAX_BATCH_BYTES)
    found = seen.key if query.part == "key" else seen.value
    if found is None:
        raise not_found(f"The {query.part} of this record is null.")
    return Attachment(
        f"{call.path['topic']}-{seen.partition}-{seen.offset}.{query.part}", found.data
    )


class NewData(msgspec.Struct):
    """Bytes to write: text as it is, JSON as it is once it was found to be JSON, or hex digits."""

    data: str
    format: Literal["text", "json", "hex"] = "text"


class NewHeader(msgspec.Struct):
    name: str
    value: NewData | None = None


class NewMessage(msgspec.Struct):
    """A record to write; null is no key, or a tombstone. Without a partition the key decides."""

    key: NewData | None = None
    value: NewData | None = None
    headers: list[NewHeader] = []
    partition: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


class Written(msgspec.Struct):
    partition: int
    offset: int


class ProducePreview(msgspec.Struct):
    """What would be written. `file` is the line that the command reads where it is a long one."""

    partition: int | None
    size: int
    file: str | None


def parse_data(field: str, form: str, text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise invalid("Half of a character is in it.", field) from None
    if form == "hex":
        digits = re.sub(r"\s+|0x", "", text)
        try:
            return bytes.fromhex(digits)
        except ValueError:
            raise invalid("Hex digits, two for each byte.", field) from None
    if form == "json":
        try:
            json.loads(data)
        except RecursionError:
            raise invalid("No JSON: it is nested too deep.", field) from None
        except ValueError as error:
            raise invalid(f"No JSON: {error}.", field) from None
    return data


def record_of(new: NewMessage, timestamp_ms: int = -1) -> Record:
    """Raises ApiError at the field that is wrong."""
    if len(new.headers) > MAX_NEW_HEADERS:
        raise invalid(f"Up to {MAX_NEW_HEADERS:,} headers.", "headers")
    parts = [
        None if given is None else parse_data(name, given.format, given.data)
        for name, given in (("key", new.key), ("value", new.value))
    ]
    headers = [
        (
            parse_data("headers", "text", header.name).decode(),
            None
            if header.value is None
            else parse_data("headers", header.value.format, header.value.data),
        )
        for header in new.headers
    ]
    return Record(parts[0], parts[1], timestamp_ms, headers)


def _line(new: NewMessage) -> str:
    """What `ottla produce --format json` reads."""
    record = record_of(new)
    item: dict[str, object] = {}
    if record.key is not None:
        item["key"] = _json_data(record.key)
    item["value"] = _json_data(record.value)
    if record.headers:
        item["headers"] = [[name, _json_data(value)] for name, value in record.headers]
    if new.partition is not None:
        item["partition"] = new.partition
    return json.dumps(item, ensure_ascii=False)


def _json_data(data: bytes | None) -> object:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data or b"").decode()}


def _produce_commands(call: Call) -> Sequence[str]:
    line = _line(call.body)
    words = ("produce", call.path["topic"], "--format", "json")
    # A terminal would act on control characters.
    if len(line) > _LINE_CHARACTERS or not line.isprintable():
        return [ottla(call.settings, *words, "--file", _FILE)]
    return [command_line("printf", "%s\\n", line) + " | " + ottla(call.settings, *words)]


async def _preview_produce(call: Call) -> ProducePreview:
    new: NewMessage = call.body
    record = record_of(new)
    count = await topics.partition_count(call.admin.cluster, call.path["topic"])
    partition = new.partition
    if partition is not None and partition >= count:
        raise invalid(f"The last partition is {count - 1}.", "partition")
    if partition is None and record.key is not None:
        partition = partition_of_key(record.key, count)
    line = _line(new)
    is_long = len(line) > _LINE_CHARACTERS or not line.isprintable()
    size = len(record.key or b"") + len(record.value or b"")
    return ProducePreview(partition, size, line if is_long else None)


async def produce(call: Call) -> Written:
    new: NewMessage = call.body
    record = record_of(new, int(time.time() * 1000))
    topic = call.path["topic"]
    producer = TopicProducer(
        call.admin.cluster, topic, rng=secrets.SystemRandom(), timeout_ms=_PRODUCE_MS
    )
    await producer.start()
    if new.partition is not None:
        try:
            producer.check_partition(new.partition)
        except KafkaError as error:
            raise ApiError(404, error.code.name, str(error), "partition") from None
    await producer.send(record, new.partition)
    try:
        await producer.flush()
    except KafkaError as error:
        if error.code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            raise ApiError(400, error.code.name, str(error), "value") from None
        raise
    [(tp, offset)] = producer.base_offsets.items()
    return Written(tp.partition, offset)


class Follow(msgspec.Struct):
    topic: str
    partitions: str = ""
    committed: bool = False


class Tailed(msgspec.Struct):
    """What came since the last event, newest first; `skipped` is what came and is not shown."""

    records: list[Message]
    skipped: int


def _open_tail(call: Call) -> Source:
    follow: Follow = call.query
    cluster = call.admin.cluster

    async def ends() -> dict[TopicPartition, int]:
        count = await topics.partition_count(cluster, follow.topic)
        chosen = topics.parse_partitions(follow.partitions, count)
        wanted = [TopicPartition(follow.topic, partition) for partition in chosen]
        return await list_offsets(
            cluster, wanted, LATEST, timeout_ms=5000, read_committed=follow.committed
        )

    async def read(windows: dict[TopicPartition, tuple[int, int]], limit: int) -> list[Seen]:
        now_s = asyncio.get_running_loop().time
        budget = walk.Budget(READ_BYTES // 4, now_s() + READ_S / 2, now_s)
        terms = walk.Terms(cluster, budget, limit, committed_only=follow.committed)
        async with call.access.reads:
            ways = walk.ways(terms, windows, newest=True)
            return (await walk.walk(terms, ways, limit, newest=True)).records

    def told(records: list[Seen], skipped: int) -> Tailed:
        return Tailed([message(seen) for seen in records], skipped)

    return Tail(ends, read, told)


ROUTES = [
    Route("GET", "/messages", names, "Topics that can be looked into", answer=list[TopicName]),
    Route("GET", "/messages/{topic}", browse, "Records, page by page", answer=Page, query=Where),
    Route("GET", "/messages/{topic}/{partition}/{offset}", one, "One record", answer=Message),
    Route(
        "GET", "/messages/{topic}/{partition}/{offset}/download", download,
        "The key or value of one record as a file", answer=bytes, query=WhichPart,
    ),
    Route(
        "POST", "/messages/{topic}", produce, "Write one record", answer=Written, body=NewMessage,
        commands=_produce_commands, preview=_preview_produce, max_body_bytes=WRITE_BYTES,
    ),
]  # fmt: skip
FEEDS = [
    Feed("messages", "Records as they come", 0.5, _open_tail, query=Follow, message=Tailed),
]
