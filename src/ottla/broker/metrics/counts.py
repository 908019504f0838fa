"""What a broker counts for operators: plain numbers, added up as requests are answered.

Nothing here knows Prometheus: `export.py` turns the numbers into its text.
A broker without `ottla.metrics.port` has none of this, and pays nothing for it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.replication.alter_isr import IsrAnswer, IsrChange, IsrSubmitter
    from ottla.types import TopicPartition

_PRODUCE, _FETCH = 0, 1
# Upper bounds of the latency histogram; one more bucket takes the rest.
BUCKETS_MS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 5000.0, 30_000.0)
# Answers may list ten thousand topics: errors are looked for in this many entries.
_MAX_LOOKED_AT = 100
_BATCH_OVERHEAD_BYTES = 12
_RECORD_COUNT_AT = 57
_LENGTH = struct.Struct(">i")
_HEADER_BYTES = 61
# Bytes above this many topics are counted for the broker only.
MAX_TOPICS = 10_000


class ApiMetrics:
    """Requests of one API."""

    __slots__ = ("buckets", "by_version", "errors", "total_ms")

    def __init__(self) -> None:
        self.by_version: Counter[int] = Counter()
        self.errors: Counter[int] = Counter()
        self.total_ms = 0.0
        self.buckets = [0] * (len(BUCKETS_MS) + 1)

    def add(self, version: int, elapsed_ms: float) -> None:
        self.by_version[version] += 1
        self.total_ms += elapsed_ms
        self.buckets[bisect_left(BUCKETS_MS, elapsed_ms)] += 1


class TopicMetrics:
    """Bytes and records of one topic, or of all."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_out = 0
        self.produces = 0
        self.fetches = 0
        self.failed_produces = 0
        self.failed_fetches = 0


class Served(NamedTuple):
    """A request that was served: what was asked, in which version, and Kafka's name of the API."""

    api_key: int
    name: str
    version: int
    # None for an ApiVersions request of an unknown version.
    request: Any


class RequestMetrics:
    """One per broker; `answered` and `failed` are called once per request."""

    def __init__(self) -> None:
        self.apis: dict[str, ApiMetrics] = {}
        self.total = TopicMetrics()
        self.topics: dict[str, TopicMetrics] = {}

    def answered(self, served: Served, response: Any, elapsed_ms: float) -> None:
        api = self._count(served, elapsed_ms)
        if response is None:
            return
        if served.api_key == _PRODUCE:
            self._produced(served.request, response, api)
        elif served.api_key == _FETCH:
            self._fetched(served, response, api)
        else:
            for code in error_codes(response):
                api.errors[code] += 1

    def failed(self, served: Served, code: int, elapsed_ms: float) -> None:
        """A handler raised an error instead of an answer."""
        self._count(served, elapsed_ms).errors[code] += 1
        if served.api_key == _PRODUCE:
            self.total.failed_produces += 1
        elif served.api_key == _FETCH:
            self.total.failed_fetches += 1

    def forget(self, is_known: Callable[[str], bool]) -> None:
        """Topics that are gone take their numbers with them."""
        for name in [name for name in self.topics if not is_known(name)]:
            del self.topics[name]

    def _count(self, served: Served, elapsed_ms: float) -> ApiMetrics:
        name = served.name
        if name == "Fetch":
            name = "FetchFollower" if _is_follower(served) else "FetchConsumer"
        api = self.apis.get(name)
        if api is None:
            api = self.apis[name] = ApiMetrics()
        api.add(served.version, elapsed_ms)
        return api

    def _produced(self, request: Any, response: Any, api: ApiMetrics) -> None:
        for sent, answered in zip(request.topic_data, response.responses, strict=False):
            results = answered.partition_responses
            for data, result in zip(sent.partition_data, results, strict=False):
                api.errors[result.error_code] += 1
                for counts in self._of(sent.name, failed=bool(result.error_code)):
                    counts.produces += 1
                    if result.error_code:
                        counts.failed_produces += 1
                    elif data.records is not None:
                        counts.bytes_in += len(data.records)
                        counts.messages_in += record_count(data.records)

    def _fetched(self, served: Served, response: Any, api: ApiMetrics) -> None:
        follower = _is_follower(served)
        api.errors[response.error_code] += 1
        for topic in response.responses:
            for data in topic.partitions:
                size = len(data.records) if data.records is not None else 0
                if data.error_code:
                    api.errors[data.error_code] += 1
                for counts in self._of(topic.topic, failed=bool(data.error_code)):
                    counts.fetches += 1
                    if data.error_code:
                        counts.failed_fetches += 1
                    elif follower:
                        counts.replication_bytes_out += size
                    else:
                        counts.bytes_out += size

    def _of(self, topic: str, *, failed: bool) -> tuple[TopicMetrics, ...]:
        """A topic that nobody has used with success may not exist: it gets no numbers."""
        counts = self.topics.get(topic)
        if counts is None:
            if failed or len(self.topics) >= MAX_TOPICS:
                return (self.total,)
            counts = self.topics[topic] = TopicMetrics()
        return self.total, counts


def _is_follower(served: Served) -> bool:
    request = served.request
    if request is None:
        return False
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)


def record_count(records: memoryview) -> int:
    """The records in some batches, by their headers."""
    count, position, size = 0, 0, len(records)
    while position + _HEADER_BYTES <= size:
        count += _LENGTH.unpack_from(records, position + _RECORD_COUNT_AT)[0]
        length = _LENGTH.unpack_from(records, position + 8)[0]
        position += _BATCH_OVERHEAD_BYTES + max(length, 0)
    return count


def error_codes(response: Any) -> Iterator[int]:
    """The codes of an answer: its own, or those of the entries it lists."""
    own = getattr(response, "error_code", None)
    if own is not None:
        yield own
        return
    for name in response.__slots__:
        entries = getattr(response, name)
        if isinstance(entries, list):
            for entry in entries[:_MAX_LOOKED_AT]:
                code = getattr(entry, "error_code", None)
                if code is not None:
                    yield code


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


class IsrCounter:
    """Counts shrinks and expansions of ISRs on their way through to the controller."""

    def __init__(self, submitter: IsrSubmitter, isr_size: Callable[[TopicPartition], int]) -> None:
        self._submitter = submitter
        self._isr_size = isr_size
        self.shrinks = 0
        self.expands = 0

    def submit(self, change: IsrChange) -> bool:
        return self._submitter.submit(change._replace(answered=partial(self._answered, change)))

    def clear(self, tp: TopicPartition) -> None:
        self._submitter.clear(tp)

    def _answered(self, change: IsrChange, answer: IsrAnswer) -> None:
        before = self._isr_size(change.tp)
        change.answered(answer)
        after = self._isr_size(change.tp)
        self.shrinks += after < before
        self.expands += after > before
