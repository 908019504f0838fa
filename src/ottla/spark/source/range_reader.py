"""Reads one range of offsets of one partition as Arrow record batches.

The next fetch is under way while the last one is decoded and handed over. Leaders are followed when
they move. Topics are named by id where the broker can (KIP-516), so that a topic that is deleted
and made again in the middle of a task is noticed there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.client.cluster import RETRY_PAUSE_MS, response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.errors import DataLoss, SourceError, TopicMissing, TopicRecreated
from ottla.spark.kafka import NOT_READABLE_YET, KafkaClient
from ottla.spark.options import EARLIEST, SourceOptions, Subscription
from ottla.spark.source.offsets import same_topic
from ottla.spark.source.shape import Shape
from ottla.types import parse_topic_id
from ottla.wire import columnar
from ottla.wire import messages as m
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.source.offsets import OffsetRange

MAX_WAIT_MS = 500
_MIN_VERSION = 4  # batches of format 2
_MAX_VERSION_BY_NAME = 12
_ID_UNKNOWN = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class RangeReader:
    """Iterate once; the client stays open."""

    def __init__(self, client: KafkaClient, task: OffsetRange, options: SourceOptions) -> None:
        self._client = client
        self._task = task
        self._options = options
        self._position = task.start
        self._shape = Shape(options, str(task.topic_partition))
        self._refresh = False
        self._deadline_s = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        fetch = self._begin_fetch()
        self._progress()
        try:
            while self._position < self._task.end:
                data = self._client.run(_answer(fetch))
                scanned = self._scan(data)
                start = self._position
                if scanned is None:
                    fetch = self._begin_fetch()
                    continue
                self._advance(scanned)
                if self._position < self._task.end:
                    fetch = self._begin_fetch()
                yield from self._decode(scanned.batches, start)
        finally:
            fetch.cancel()

    def _advance(self, scanned: columnar.Scan) -> None:
        """Past all that came, also where none of it is to be read. An answer that does not lead
        further must not be asked for over and over."""
        if scanned.next_offset is not None and scanned.next_offset > self._position:
            self._position = scanned.next_offset
            self._progress()
            return
        self._expect_progress(
            f"the leader of {self._task.topic_partition} sends nothing from offset "
            f"{self._position} on, {self._task.end} is the end of what was to be read"
        )

    def _progress(self) -> None:
        self._deadline_s = self._client.loop.time() + self._client.connect.timeout_ms / 1000

    def _decode(self, batches: list[columnar.Batch], start: int) -> Iterator[pa.RecordBatch]:
        try:
            rows = columnar.decode(
                batches,
                topic=self._task.topic,
                partition=self._task.partition,
                start=start,
                end=self._task.end,
                columns=self._shape.needed,
            )
            yield from self._shape.shaped(rows)
        except WireError as error:
            raise self._corrupt(error) from error

    def _corrupt(self, error: WireError) -> SourceError:
        return SourceError(
            f"{self._task.topic_partition} cannot be read from offset {self._position}: {error}"
        )

    def _begin_fetch(self) -> asyncio.Task[Any]:
        """The request is on its way when this returns."""
        loop = self._client.loop
        task = loop.create_task(self._fetch(self._position))
        loop.call_soon(loop.stop)
        loop.run_forever()
        return task

    async def _fetch(self, position: int) -> Any:
        """The partition's part of the answer, or the error instead of one."""
        timeout_ms = self._client.connect.timeout_ms
        cluster = self._client.cluster
        refresh, self._refresh = self._refresh, False
        request = self._request(position)
        by_id = self._task.topic_id != ""
        leader = -1
        try:
            leader = await cluster.leader_of(
                self._task.topic_partition, refresh=refresh, timeout_ms=timeout_ms
            )
            request_ms = min(timeout_ms, cluster.request_timeout_ms)
            channel = await cluster.channel_to(leader, timeout_ms=request_ms)
            answer = await channel.send(
                request,
                timeout_ms=request_ms,
                min_version=_MIN_VERSION,
                max_version=None if by_id else _MAX_VERSION_BY_NAME,
            )
        except KafkaError as error:
            return error
        except OSError as error:
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader}: {error}")
        if answer.error_code:
            return response_error(answer.error_code)
        return answer.responses[0].partitions[0]

    def _request(self, position: int) -> m.FetchRequest:
        cls = m.FetchRequest
        topic_id = parse_topic_id(self._task.topic_id) if self._task.topic_id else bytes(16)
        partition = cls.FetchPartition(
            partition=self._task.partition,
            fetch_offset=position,
            partition_max_bytes=self._options.fetch_bytes,
        )
        return cls(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._options.fetch_bytes,
            isolation_level=int(self._options.read_committed),
            session_epoch=-1,  # no fetch session
            topics=[
                cls.FetchTopic(topic=self._task.topic, topic_id=topic_id, partitions=[partition])
            ],
        )

    def _scan(self, data: Any) -> columnar.Scan | None:
        """The batches of an answer; None after a failure that may pass."""
        if isinstance(data, KafkaError):
            self._meet(data)
            return None
        if data.error_code:
            self._meet(response_error(data.error_code))
            return None
        if not data.records:
            self._check_end(data)
            return None
        aborted = None
        if self._options.read_committed:
            aborted = [
                columnar.AbortedTransaction(entry.producer_id, entry.first_offset)
                for entry in data.aborted_transactions or ()
            ]
        try:
            return columnar.scan(
                data.records,
                self._position,
                self._task.end,
                aborted=aborted,
                check_crcs=self._options.check_crcs,
            )
        except WireError as error:
            raise self._corrupt(error) from error

    def _check_end(self, data: Any) -> None:
        """Nothing came. A leader may lag for a moment after a failover; a log that was cut off
        stays short."""
        end = data.last_stable_offset if self._options.read_committed else data.high_watermark
        self._expect_progress(
            f"{self._task.topic_partition} ends at offset {end}, {self._position} to "
            f"{self._task.end} were to be read: its log was cut off"
        )

    def _expect_progress(self, words: str) -> None:
        if self._client.loop.time() > self._deadline_s:
            raise DataLoss(words)

    def _meet(self, error: KafkaError) -> None:
        """Raises unless the failure may pass; then the leader is looked up again."""
        where = self._task.topic_partition
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return
        if error.code in _ID_UNKNOWN:
            self._check_topic()
        elif error.code not in NOT_READABLE_YET:
            raise SourceError(f"{where} cannot be read: {error}")
        self._expect_progress(f"{where} could not be read for a while: {error}")
        self._refresh = True
        self._client.pause(RETRY_PAUSE_MS)

    def _out_of_range(self) -> None:
        where = self._task.topic_partition
        earliest = self._client.list_offsets({where: EARLIEST})[where]
        if earliest <= self._position:
            self._check_topic()
            words = f"{where} does not reach offset {self._position} any more: it was cut off"
        else:
            words = (
                f"offset {self._position} of {where} has aged out: the oldest is {earliest}. "
                "Records were deleted before they were read (retention)"
            )
        if self._options.fail_on_data_loss:
            raise DataLoss(f"{words}; failOnDataLoss=false goes on without them")
        self._position = (
            max(earliest, self._position) if earliest > self._position else (self._task.end)
        )

    def _check_topic(self) -> None:
        """Is the topic still the one that the range speaks of?"""
        topic = self._task.topic
        try:
            now = self._client.existing_topics(Subscription("subscribe", topics=(topic,)))[topic]
        except TopicMissing:
            raise DataLoss(f"topic {topic} was deleted while it was being read") from None
        if not same_topic(self._task.topic_id, now.topic_id):
            raise TopicRecreated(
                f"topic {topic} was deleted and made again while it was being read: its id is "
                f"{now.topic_id}, was {self._task.topic_id}"
            )


async def _answer(task: asyncio.Task[Any]) -> Any:
    return await task
