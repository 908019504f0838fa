"""Produce without detours, for what most producers send most of the time.

One batch for one partition, outside transactions. Such a request differs from the one before it
on its connection in the correlation id and the batch alone: it is recognised by its bytes,
appended, and answered from a template, without message objects, coroutine or task. Where followers
have to have the batch first (acks=all), the answer is parked until they do. What may be appended,
the append service knows (broker/replication/append.py). Everything else, errors of all kinds
included, is left to the Produce handler: a request that was not appended here is new to it. So are
all requests of brokers that authorise, count or throttle them.
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
from ottla.wire.framing import decode_request_header, encode_response
from ottla.wire.primitives import WireError, read_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.replication.append import Appends
    from ottla.broker.replication.hosted import HostedPartitions

PRODUCE_KEY = 0
_VERSIONS = range(9, 12)
# Bounds what one connection can make us remember.
MAX_FORMS = 256
# The request header up to the correlation id.
_HEAD = struct.Struct(">hhi")
_AFTER_CORRELATION = 8
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
_NULL, _ONE_ENTRY, _LONGEST_NAME = 0, 2, 126
# Tags of the partition, the topic and the request: none.
_NO_TAGS = b"\x00\x00\x00"
# No record errors, no message, no tags of partition and topic; no throttling, no tags.
_ANSWER_END = b"\x01\x00\x00\x00" + b"\x00\x00\x00\x00\x00"


class _Form:
    """What requests that begin with the same bytes have in common."""

    __slots__ = ("_head", "_pack", "_size", "acks", "end", "timeout_ms", "tp", "version")

    def __init__(
        self, tp: TopicPartition, version: int, acks: int, timeout_ms: int, end: int
    ) -> None:
        self.tp = tp
        self.version = version
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.end = end
        name = tp.topic.encode()
        # The response header's tags, one topic, one partition, no error.
        head = b"\x00\x02" + bytes((len(name) + 1,)) + name + b"\x02"
        self._head = head + _INDEX.pack(tp.partition) + b"\x00\x00"
        layout = struct.Struct(f">ii{len(self._head)}sqqq{len(_ANSWER_END)}s")
        self._pack: Callable[..., bytes] = layout.pack
        self._size = layout.size - 4

    def answer(
        self, correlation_id: int, base_offset: int, append_time_ms: int, start_offset: int
    ) -> bytes:
        return self._pack(
            self._size,
            correlation_id,
            self._head,
            base_offset,
            append_time_ms,
            start_offset,
            _ANSWER_END,
        )


class _ParkedProduce(Parked):
    """Its answer is made already: followers decide whether it holds."""

    __slots__ = ("_answer", "_correlation_id", "_form", "_listener", "_partitions")

    def __init__(
        self,
        partitions: HostedPartitions,
        listener: str,
        form: _Form,
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


class DirectProduce:
    """One per connection; remembers the forms of its requests."""

    __slots__ = ("_end", "_forms", "_listener")

    def __init__(self, listener: str = "") -> None:
        self._listener = listener
        self._forms: dict[bytes, _Form] = {}
        # Where the last form ended: the partitions of one topic all end there.
        self._end = _AFTER_CORRELATION

    def answers(self, appends: Appends, frames: Iterable[memoryview]) -> list[bytes | Parked]:
        """The answers to the first of some requests, empty for acks=0, parked where followers have
        to have the batch first. With the next one nothing was done."""
        form, correlation_ids, batches = self._read(frames)
        partition = None if form is None else appends.partitions.get(form.tp)
        log = None if partition is None else partition.log
        if form is None or partition is None or log is None:
            return []
        bases, end_offset, time_ms = appends.append_plain(partition, log, batches, form.acks)
        if form.acks == 0:
            return [b""] * len(bases)
        waits = form.acks == ALL_REPLICAS and partition.remotes
        answers: list[bytes | Parked] = []
        for number, base in enumerate(bases):
            correlation_id = correlation_ids[number]
            answer = form.answer(correlation_id, base, time_ms, log.start_offset)
            if waits:
                end = bases[number + 1] if number + 1 < len(bases) else end_offset
                parked = _ParkedProduce(
                    appends.partitions, self._listener, form, correlation_id, answer
                )
                appends.when_replicated(partition, log, end, form.timeout_ms, parked.end)
                answers.append(parked)
            else:
                answers.append(answer)
        return answers

    def _read(
        self, frames: Iterable[memoryview]
    ) -> tuple[_Form | None, list[int], list[memoryview]]:
        """The form of the first request, and correlation ids and batches of those that have it."""
        common: _Form | None = None
        correlation_ids: list[int] = []
        batches: list[memoryview] = []
        try:
            for frame in frames:
                api_key, version, correlation_id = _HEAD.unpack_from(frame)
                if api_key != PRODUCE_KEY:
                    break
                form = self._forms.get(frame[_AFTER_CORRELATION : self._end].tobytes())
                if form is None or form.version != version:
                    form = self._learn(frame, version)
                if form is None or (form is not common and common is not None):
                    break
                size, start = read_uvarint(frame, form.end)
                end = start + size - 1
                if frame[end:] != _NO_TAGS:
                    break
                common = form
                correlation_ids.append(correlation_id)
                batches.append(frame[start:end])
        except (WireError, struct.error, IndexError, UnicodeDecodeError):
            pass  # the handler says what is wrong with that one
        return common, correlation_ids, batches

    def _learn(self, frame: memoryview, version: int) -> _Form | None:
        if version not in _VERSIONS:
            return None
        _, position = decode_request_header(frame)
        if frame[position] != _NULL:
            return None  # a transactional id
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position + 1)
        position += 1 + _ACKS_AND_TIMEOUT.size
        name_length = frame[position + 1] - 1
        if frame[position] != _ONE_ENTRY or not 0 < name_length <= _LONGEST_NAME:
            return None
        name_at = position + 2
        position = name_at + name_length
        topic = str(frame[name_at:position], "utf-8")
        if frame[position] != _ONE_ENTRY or not is_open_to_all(topic, acks):
            return None
        (index,) = _INDEX.unpack_from(frame, position + 1)
        end = position + 1 + _INDEX.size
        form = _Form(TopicPartition(topic, index), version, acks, timeout_ms, end)
        if len(self._forms) >= MAX_FORMS:
            self._forms.clear()
        self._forms[frame[_AFTER_CORRELATION:end].tobytes()] = form
        self._end = end
        return form
