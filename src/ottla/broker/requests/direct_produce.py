"""Produce without detours, for what most producers send most of the time.

One batch for one partition, outside transactions, in any version from 3 on. Such a request differs
from the one before it on its connection in the correlation id and the batch alone: it is recognised
by its bytes, appended, and answered from a template, without message objects, coroutine or task.
Where followers have to have the batch first (acks=all), the answer is parked until they do. What
may be appended, the append service knows (broker/replication/append.py). Everything else, errors of
all kinds included, is left to the Produce handler: a request that was not appended here is new to
it. So are all requests of brokers that authorise, count or throttle them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.broker.handlers.produce import make_response
from ottla.broker.replication.append import ALL_REPLICAS, ProduceResult, is_open_to_all
from ottla.broker.requests.parked import Parked
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.compression import ZSTD
from ottla.wire.framing import decode_request_header, encode_response
from ottla.wire.primitives import WireError, read_uvarint
from ottla.wire.records import ATTRIBUTES_LOW_AT, CODEC_MASK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.replication.append import Appends
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.broker.replication.partition import Partition
    from ottla.storage.log.log import Log

PRODUCE_KEY = 0
_VERSIONS = range(3, 12)
_OLDEST_FLEXIBLE = 9
_OLDEST_WITH_RECORD_ERRORS = 8
_OLDEST_WITH_ZSTD = 7
_OLDEST_WITH_LOG_START = 5
# Bounds what one connection can make us remember: a client's id is as long as it likes, and so are
# the tags of a header.
MAX_FORMS = 256
MAX_FORM_BYTES = 4096
# The request header up to the correlation id.
_HEAD = struct.Struct(">hhi")
_AFTER_CORRELATION = 8
_INDEX = struct.Struct(">i")
_SIZE = struct.Struct(">i")
# From the transactional id, which is null, to the length of the one topic's name; then what is
# between the name and the records: one partition, and its number.
_FLEXIBLE_START, _FLEXIBLE_PARTITION = struct.Struct(">bhibb"), struct.Struct(">bi")
_START, _PARTITION = struct.Struct(">hhiih"), struct.Struct(">ii")
# How many lengths of forms are tried: names of topics have different ones.
_MAX_ENDS = 8
_LONGEST_NAME = 126
# Tags of the partition, the topic and the request: none.
_NO_TAGS = b"\x00\x00\x00"
# No record errors, no message, no tags of partition and topic; no throttling, no tags.
_FLEXIBLE_ANSWER_END = b"\x01\x00\x00\x00" + b"\x00\x00\x00\x00\x00"
# No record errors, no message; no throttling.
_ANSWER_END_WITH_ERRORS = b"\x00\x00\x00\x00\xff\xff" + b"\x00\x00\x00\x00"
_ANSWER_END = b"\x00\x00\x00\x00"

# The handler says what is wrong with such a request.
_UNREADABLE = (WireError, struct.error, IndexError, UnicodeDecodeError)


class Form:
    """What requests that begin with the same bytes have in common."""

    __slots__ = (
        "_end_of_answer",
        "_head",
        "_pack",
        "_size",
        "acks",
        "end",
        "is_flexible",
        "takes_zstd",
        "timeout_ms",
        "tp",
        "version",
    )

    def __init__(
        self, tp: TopicPartition, version: int, acks: int, timeout_ms: int, end: int
    ) -> None:
        self.tp = tp
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.end = end
        self.takes_zstd = version >= _OLDEST_WITH_ZSTD
        self.is_flexible = version >= _OLDEST_FLEXIBLE
        self._head, self._end_of_answer = _around_offsets(tp, version)
        offsets = "qqq" if version >= _OLDEST_WITH_LOG_START else "qq"
        layout = struct.Struct(f">ii{len(self._head)}s{offsets}{len(self._end_of_answer)}s")
        self._pack: Callable[..., bytes] = layout.pack
        self._size = layout.size - 4

    def answer(
        self, correlation_id: int, base_offset: int, append_time_ms: int, start_offset: int
    ) -> bytes:
        head, end = self._head, self._end_of_answer
        if self.version < _OLDEST_WITH_LOG_START:
            return self._pack(self._size, correlation_id, head, base_offset, append_time_ms, end)
        return self._pack(
            self._size, correlation_id, head, base_offset, append_time_ms, start_offset, end
        )

    def batch_of(self, frame: memoryview) -> memoryview | None:
        """None where something is not as usual behind the common bytes."""
        if self.is_flexible:
            size, start = read_uvarint(frame, self.end)
            end = start + size - 1
            return frame[start:end] if frame[end:] == _NO_TAGS else None
        start = self.end + _SIZE.size
        if _SIZE.unpack_from(frame, self.end)[0] != len(frame) - start:
            return None
        batch = frame[start:]
        if not self.takes_zstd and batch[ATTRIBUTES_LOW_AT] & CODEC_MASK == ZSTD:
            return None
        return batch


def _around_offsets(tp: TopicPartition, version: int) -> tuple[bytes, bytes]:
    """What stands in an answer before and behind the offsets of one partition; no error."""
    name = tp.topic.encode()
    partition_and_no_error = _INDEX.pack(tp.partition) + b"\x00\x00"
    if version >= _OLDEST_FLEXIBLE:
        # The response header's tags come first.
        head = b"\x00\x02" + bytes((len(name) + 1,)) + name + b"\x02"
        return head + partition_and_no_error, _FLEXIBLE_ANSWER_END
    head = _INDEX.pack(1) + len(name).to_bytes(2, "big") + name + _INDEX.pack(1)
    has_errors = version >= _OLDEST_WITH_RECORD_ERRORS
    return head + partition_and_no_error, _ANSWER_END_WITH_ERRORS if has_errors else _ANSWER_END


class _ParkedProduce(Parked):
    """Its answer is made already: followers decide whether it holds."""

    __slots__ = ("_answer", "_correlation_id", "_form", "_listener", "_partitions")

    def __init__(
        self,
        partitions: HostedPartitions,
        listener: str,
        form: Form,
        correlation_id: int,
        answer: bytes,
    ) -> None:
        super().__init__()
        self._partitions = partitions
        self._listener = listener
        self._form = form
        self._correlation_id = correlation_id
        self._answer = answer

    def end(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.ready([self._answer])
        else:
            self.ready(self._failure(error))

    def _failure(self, error: ErrorCode) -> list[bytes | memoryview]:
        tp, version = self._form.tp, self._form.version
        partition = m.ProduceRequest.PartitionProduceData(index=tp.partition)
        topic = m.ProduceRequest.TopicProduceData(name=tp.topic, partition_data=[partition])
        response = make_response(
            self._partitions,
            self._listener,
            version,
            m.ProduceRequest(topic_data=[topic]),
            {tp: ProduceResult(error)},
        )
        return encode_response(response, version, self._correlation_id)


def answer_to(
    appends: Appends,
    partition: Partition,
    log: Log,
    listener: str,
    form: Form,
    correlation_id: int,
    place: tuple[int, int, int],
) -> bytes | Parked:
    """What is answered for an appended batch with its base offset, the offset behind it and its
    append time."""
    if form.acks == 0:
        return b""
    base, end, time_ms = place
    answer = form.answer(correlation_id, base, time_ms, log.start_offset)
    if form.acks != ALL_REPLICAS or not partition.remotes:
        return answer
    parked = _ParkedProduce(appends.partitions, listener, form, correlation_id, answer)
    appends.when_replicated(partition, log, end, form.timeout_ms, parked.end)
    return parked


class DirectProduce:
    """One per connection; remembers the forms of its requests."""

    __slots__ = ("_ends", "_forms", "_listener")

    def __init__(self, listener: str = "") -> None:
        self._listener = listener
        self._forms: dict[bytes, Form] = {}
        # Where forms end, the last one first: the partitions of one topic all end there.
        self._ends: list[int] = []

    def answers(self, appends: Appends, frames: Iterable[memoryview]) -> list[bytes | Parked]:
        """The answers to the first of some requests, empty for acks=0, parked where followers have
        to have the batch first. With the next one nothing was done."""
        form, correlation_ids, batches = self._read(frames)
        partition = None if form is None else appends.partitions.get(form.tp)
        log = None if partition is None else partition.log
        if form is None or partition is None or log is None:
            return []
        bases, end_offset, time_ms = appends.append_plain(partition, log, batches, form.acks)
        ends = [*bases[1:], end_offset]
        return [
            answer_to(
                appends, partition, log, self._listener, form, correlation_id, (base, end, time_ms)
            )
            for correlation_id, base, end in zip(correlation_ids, bases, ends, strict=False)
        ]

    def read_one(self, frame: memoryview) -> tuple[Form, int, memoryview] | None:
        """The form, the correlation id and the batch of a request; None for one that needs its
        handler."""
        try:
            _, version, correlation_id = _HEAD.unpack_from(frame)
            form = self._known(frame, version) or self._learn(frame, version)
            batch = None if form is None else form.batch_of(frame)
        except _UNREADABLE:
            return None
        return None if form is None or batch is None else (form, correlation_id, batch)

    def _read(
        self, frames: Iterable[memoryview]
    ) -> tuple[Form | None, list[int], list[memoryview]]:
        """The form of the first request, and correlation ids and batches of those that have it."""
        common: Form | None = None
        correlation_ids: list[int] = []
        batches: list[memoryview] = []
        try:
            for frame in frames:
                api_key, version, correlation_id = _HEAD.unpack_from(frame)
                if api_key != PRODUCE_KEY:
                    break
                form = self._known(frame, version) or self._learn(frame, version)
                if form is None or (form is not common and common is not None):
                    break
                batch = form.batch_of(frame)
                if batch is None:
                    break
                common = form
                correlation_ids.append(correlation_id)
                batches.append(batch)
        except _UNREADABLE:
            pass
        return common, correlation_ids, batches

    def _known(self, frame: memoryview, version: int) -> Form | None:
        for end in self._ends:
            form = self._forms.get(frame[_AFTER_CORRELATION:end].tobytes())
            if form is not None and form.version == version:
                return form
        return None

    def _learn(self, frame: memoryview, version: int) -> Form | None:
        if version not in _VERSIONS:
            return None
        _, position = decode_request_header(frame)
        if version >= _OLDEST_FLEXIBLE:
            layouts, null, one, longer = (_FLEXIBLE_START, _FLEXIBLE_PARTITION), 0, 2, 1
        else:
            layouts, null, one, longer = (_START, _PARTITION), -1, 1, 0
        start, partition = layouts
        transactional_id, acks, timeout_ms, topics, length = start.unpack_from(frame, position)
        name_at, name_length = position + start.size, length - longer
        if transactional_id != null or topics != one or not 0 < name_length <= _LONGEST_NAME:
            return None
        position = name_at + name_length
        partitions, index = partition.unpack_from(frame, position)
        topic = str(frame[name_at:position], "utf-8")
        if partitions != one or not is_open_to_all(topic, acks):
            return None
        end = position + partition.size
        if end > MAX_FORM_BYTES:
            return None
        form = Form(TopicPartition(topic, index), version, acks, timeout_ms, end)
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[frame[_AFTER_CORRELATION:end].tobytes()] = form
        if end in self._ends:
            self._ends.remove(end)
        self._ends = [end, *self._ends[: _MAX_ENDS - 1]]
        return form
