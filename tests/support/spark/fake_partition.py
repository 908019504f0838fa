"""A scripted broker with one partition, beside plain code that reads it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.errors import ErrorCode
from ottla.spark.kafka import KafkaClient
from ottla.spark.loop_thread import LoopThread
from ottla.spark.options import EARLIEST, LATEST, SourceOptions, parse_source_options
from ottla.types import format_topic_id
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch
from tests.support.client.fake_kafka import RANGES, FakeKafka, topic

FIRST_ID, SECOND_ID = bytes(range(1, 17)), bytes(range(2, 18))
BY_ID = {1: (0, 13), 2: (0, 5), 3: (0, 12)}
BY_NAME = {1: (0, 12), 2: (0, 5), 3: (0, 12)}
WAIT_S = 30


class FakePartition:
    """Records 0, 1, 2, … of `t-0`, one batch each; `errors` are given out first."""

    def __init__(self, kafka: FakeKafka, thread: LoopThread, records: int) -> None:
        self.kafka = kafka
        self._thread = thread
        self.earliest, self.end = 0, records
        self.batches_per_answer = 1
        self.offset_at_time = -1
        self.on_list_offsets: Callable[[], object] = lambda: None
        self.errors: list[ErrorCode] = []
        self.fetched: list[int] = []
        self._changed = threading.Condition()
        self.set_topic(FIRST_ID)
        kafka.on(m.FetchRequest, self._fetch)
        kafka.on(m.ListOffsetsRequest, self._list_offsets)

    def set_topic(self, topic_id: bytes | None) -> None:
        """The topic is another one now, or there is none."""
        made = topic("t", 1, error_code=0 if topic_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        made.topic_id = topic_id or bytes(16)
        if topic_id is None:
            made.partitions = []
        self.kafka.topics = [made]

    @property
    def topic_id(self) -> str:
        return format_topic_id(FIRST_ID)

    def drop_connections(self) -> None:
        self._thread.result(self._thread.begin(_called(self.kafka.drop_connections)))

    def wait_for_fetches(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.fetched) >= count, WAIT_S)

    def _fetch(self, request: Any) -> m.FetchResponse:
        position = request.topics[0].partitions[0].fetch_offset
        with self._changed:
            self.fetched.append(position)
            self._changed.notify_all()
        answer = m.FetchResponse
        now = self.kafka.topics[0].topic_id
        code, records = ErrorCode.NONE, b""
        if self.errors:
            code = self.errors.pop(0)
        elif request.topics[0].topic_id not in (bytes(16), now):
            code = ErrorCode.UNKNOWN_TOPIC_ID
        elif not self.earliest <= position <= self.end:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            last = min(position + self.batches_per_answer, self.end)
            records = b"".join(_batch(offset) for offset in range(position, last))
        data = answer.PartitionData(
            partition_index=0,
            error_code=code,
            high_watermark=self.end,
            last_stable_offset=self.end,
            records=memoryview(records),
        )
        named = answer.FetchableTopicResponse(topic="t", topic_id=now, partitions=[data])
        return answer(responses=[named])

    def _list_offsets(self, request: Any) -> m.ListOffsetsResponse:
        self.on_list_offsets()
        asked = request.topics[0].partitions[0].timestamp
        offset = {EARLIEST: self.earliest, LATEST: self.end}.get(asked, self.offset_at_time)
        gone = not self.kafka.topics[0].partitions
        answer = m.ListOffsetsResponse
        data = answer.ListOffsetsPartitionResponse(
            partition_index=0,
            offset=offset,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if gone else ErrorCode.NONE,
        )
        return answer(topics=[answer.ListOffsetsTopicResponse(name="t", partitions=[data])])


def _batch(offset: int) -> bytes:
    return bytes(build_batch([Record(None, b"%d" % offset, 5)], base_offset=offset))


async def _called(function: Callable[[], object]) -> None:
    function()


async def _nothing() -> None:
    pass


@contextmanager
def fake_partition(
    records: int, ranges: dict[int, tuple[int, int]] | None = None
) -> Iterator[FakePartition]:
    thread = LoopThread("fake-kafka", _nothing)
    kafka = FakeKafka(1, RANGES | (ranges or BY_ID))
    thread.result(thread.begin(kafka.start()))
    try:
        yield FakePartition(kafka, thread, records)
    finally:
        thread.result(thread.begin(kafka.stop()))
        thread.close()


def options_of(partition: FakePartition, **options: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": partition.kafka.address, "subscribe": "t", **options}
    return parse_source_options(given, streaming=False)


@contextmanager
def client_of(options: SourceOptions) -> Iterator[KafkaClient]:
    client = KafkaClient(options.connect)
    try:
        yield client
    finally:
        client.close()
