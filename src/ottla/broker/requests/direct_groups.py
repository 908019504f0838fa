"""OffsetCommit and Heartbeat without detours, for what members of groups send all the time.

A member's heartbeats are the same bytes until the next generation, its commits differ in offsets
and leader epochs alone. Such a request is recognised by the bytes around these numbers and answered
from a template, without message objects, coroutine or task. What a member may do, the coordinator
says each time; where it says no, and for everything else, the request is left to its handler, to
which it is new: a heartbeat that was refused has changed nothing. So are all requests of brokers
that authorise, count or throttle them.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.parked import Parked
from ottla.coordinator.groups.answers import Committer
from ottla.coordinator.groups.records import CommittedOffset, PreparedOffset
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.codec import Message
from ottla.wire.framing import decode_request_header, encode_response
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    from typing import Any

    from ottla.broker.context.services import BrokerServices

COMMIT_KEY, HEARTBEAT_KEY = 8, 12
# Those with a leader epoch for each offset, and without a retention time.
_COMMIT_VERSIONS = range(6, 10)
_HEARTBEAT_VERSIONS = range(5)
# Bounds what one connection can make us remember.
MAX_FORMS = 8
MAX_FORM_BYTES = 4096
# Where forms do not come back, learning them is in vain.
_TRY_AGAIN_AFTER = 64
_AFTER_CORRELATION = 8
# Offset and leader epoch.
_NUMBERS_BYTES = 12
_LENGTH_AND_ID = struct.Struct(">ii")


class _Heartbeats(NamedTuple):
    """A request that says nothing new."""

    start: bytes
    rest: bytes
    layout: struct.Struct
    group_id: str
    member_id: str
    instance_id: str | None
    generation_id: int
    answer: bytes

    def fits(self, fields: tuple[Any, ...]) -> bool:
        return fields[::2] == (self.start, self.rest)

    def serve(self, services: BrokerServices, fields: tuple[Any, ...]) -> bytes | Parked | None:
        error = services.groups.heartbeat(
            self.group_id, self.member_id, self.instance_id, self.generation_id
        )
        return _answer(fields[1], self.answer) if error is ErrorCode.NONE else None


class _Commits(NamedTuple):
    """A request with a few numbers in it."""

    start: bytes
    # What is around the numbers.
    constants: tuple[bytes, ...]
    layout: struct.Struct
    version: int
    group_id: str
    committer: Committer
    partitions: tuple[PreparedOffset, ...]
    answer: bytes

    def fits(self, fields: tuple[Any, ...]) -> bool:
        return fields[0] == self.start and fields[2::3] == self.constants

    def serve(self, services: BrokerServices, fields: tuple[Any, ...]) -> bytes | Parked | None:
        cache = services.metadata_cache
        now_ms = services.runtime.clock.now_ms()
        commits, entries, place = {}, [], 3
        for prepared in self.partitions:
            tp = prepared.partition
            if not cache.contains(tp):
                return None
            offset, leader_epoch = fields[place], fields[place + 1]
            commits[tp] = CommittedOffset(offset, leader_epoch, prepared.metadata, now_ms)
            entries.append((prepared.key, prepared.value(offset, leader_epoch, now_ms)))
            place += 3
        parked = _ParkedCommit(self, fields[1])
        error = services.groups.offsets.begin_commit(
            self.group_id, self.committer, commits, entries, parked.end
        )
        return parked if error is ErrorCode.NONE else None

    def failure(self, correlation_id: int, error: ErrorCode) -> list[bytes | memoryview]:
        response = _commit_response([each.partition for each in self.partitions], error)
        return encode_response(response, self.version, correlation_id)


class _ParkedCommit(Parked):
    """Waits for the log, which says whether it holds."""

    __slots__ = ("_correlation_id", "_form")

    def __init__(self, form: _Commits, correlation_id: int) -> None:
        self.chunks = self.on_ready = None
        self._form = form
        self._correlation_id = correlation_id

    def end(self, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.ready([_answer(self._correlation_id, self._form.answer)])
        else:
            self.ready(self._form.failure(self._correlation_id, error))


class DirectGroups:
    """One per connection; remembers the forms of its requests by their length."""

    __slots__ = ("_forms", "_unknown")

    def __init__(self) -> None:
        self._forms: dict[int, list[_Heartbeats | _Commits]] | None = None
        # Requests since the last one whose form was known.
        self._unknown = 0

    def answer(self, services: BrokerServices, frame: memoryview) -> bytes | Parked | None:
        """The answer to a request, perhaps parked; None: nothing was done."""
        forms = self._forms
        if forms is not None:
            for form in forms.get(len(frame), ()):
                fields = form.layout.unpack(frame)
                if form.fits(fields):
                    self._unknown = 0
                    return form.serve(services, fields)
        self._unknown += 1
        if self._unknown > MAX_FORMS and self._unknown % _TRY_AGAIN_AFTER:
            return None  # metadata that is new each time, as that of Kafka Streams
        learnt = _learn(frame, services.groups.offsets.max_metadata)
        if learnt is None:
            return None
        self._remember(len(frame), learnt)
        return learnt.serve(services, learnt.layout.unpack(frame))

    def _remember(self, length: int, form: _Heartbeats | _Commits) -> None:
        forms = self._forms
        if forms is None or sum(map(len, forms.values())) >= MAX_FORMS:
            forms = self._forms = {}
        forms.setdefault(length, []).append(form)


def _learn(frame: memoryview, max_metadata: int) -> _Heartbeats | _Commits | None:
    """What the request has in common with the next ones; None where they need their handler."""
    if len(frame) > MAX_FORM_BYTES:
        return None
    try:
        header, position = decode_request_header(frame)
        if header.api_key == HEARTBEAT_KEY and header.api_version in _HEARTBEAT_VERSIONS:
            return _learn_heartbeat(frame, header.api_version, position)
        if header.api_key == COMMIT_KEY and header.api_version in _COMMIT_VERSIONS:
            return _learn_commit(frame, header.api_version, position, max_metadata)
    except WireError:
        pass  # the handler says what is wrong with it
    return None


def _learn_heartbeat(frame: memoryview, version: int, position: int) -> _Heartbeats | None:
    request, _ = m.HeartbeatRequest.decode(frame, version, position)
    rest = frame[_AFTER_CORRELATION:].tobytes()
    return _Heartbeats(
        frame[:4].tobytes(),
        rest,
        struct.Struct(f">4si{len(rest)}s"),
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id,
        _template(m.HeartbeatResponse(), version),
    )


def _learn_commit(
    frame: memoryview, version: int, position: int, max_metadata: int
) -> _Commits | None:
    request, _ = m.OffsetCommitRequest.decode(frame, version, position)
    found = [(topic.name, each) for topic in request.topics for each in topic.partitions]
    partitions = [TopicPartition(name, each.partition_index) for name, each in found]
    prepared = [
        PreparedOffset(request.group_id, partition, each.committed_metadata or "")
        for partition, (_, each) in zip(partitions, found, strict=True)
    ]
    is_usual = (
        0 < len(set(partitions)) == len(partitions)
        and len({topic.name for topic in request.topics if topic.partitions}) == len(request.topics)
        and all(len(each.metadata) <= max_metadata for each in prepared)
        and request.encode(version) == frame[position:]
    )
    if not is_usual:
        return None
    places = _numbers(request, version, position)
    ends = [_AFTER_CORRELATION, *(place + _NUMBERS_BYTES for place in places)]
    lengths = [start - end for end, start in zip(ends, [*places, len(frame)], strict=True)]
    layout = struct.Struct(">4si" + "qi".join(f"{length}s" for length in lengths))
    return _Commits(
        frame[:4].tobytes(),
        layout.unpack(frame)[2::3],
        layout,
        version,
        request.group_id,
        Committer(
            request.member_id, request.group_instance_id, request.generation_id_or_member_epoch
        ),
        tuple(prepared),
        _template(_commit_response(partitions, ErrorCode.NONE), version),
    )


def _numbers(request: m.OffsetCommitRequest, version: int, position: int) -> list[int]:
    """Where in the frame offsets are, each with its epoch: all of their bytes differ between 0
    and -1, and nothing else does."""
    encoded = []
    for number in (0, -1):
        for topic in request.topics:
            for each in topic.partitions:
                each.committed_offset = each.committed_leader_epoch = number
        encoded.append(request.encode(version))
    zeros, ones = encoded
    differing = [place for place, (a, b) in enumerate(zip(zeros, ones, strict=True)) if a != b]
    return [position + place for place in differing[::_NUMBERS_BYTES]]


def _commit_response(partitions: list[TopicPartition], error: ErrorCode) -> m.OffsetCommitResponse:
    response = m.OffsetCommitResponse
    topics: list[m.OffsetCommitResponse.OffsetCommitResponseTopic] = []
    for topic, partition in partitions:
        if not topics or topics[-1].name != topic:
            topics.append(response.OffsetCommitResponseTopic(name=topic, partitions=[]))
        entry = response.OffsetCommitResponsePartition(partition_index=partition, error_code=error)
        topics[-1].partitions.append(entry)
    return response(topics=topics)


def _template(response: Message, version: int) -> bytes:
    """An answer behind its length and number."""
    return b"".join(encode_response(response, version, 0))[_LENGTH_AND_ID.size :]


def _answer(correlation_id: int, template: bytes) -> bytes:
    return _LENGTH_AND_ID.pack(len(template) + 4, correlation_id) + template
