"""Fetches one range of offsets of one partition; runs on the client's thread.

Leaders are followed when they move. Topics are named by id where the broker can (KIP-516), so that
a topic that is deleted and made again in the middle of a task is noticed there. Failures that may
pass are tried again for as long as anybody reads: how long is too long is the reader's to say.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.errors import SourceError, TopicMissing, TopicRecreated
from ottla.spark.kafka import NOT_READABLE_YET, KafkaClient
from ottla.spark.options import EARLIEST, SourceOptions, Subscription
from ottla.spark.source.kept_group import carried_to
from ottla.spark.source.losses import accept
from ottla.spark.source.offsets import Loss, same_topic
from ottla.types import parse_topic_id
from ottla.wire import columnar
from ottla.wire import messages as m
from ottla.wire.primitives import WireError

if TYPE_CHECKING:
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
_PASSING = NOT_READABLE_YET | _ID_UNKNOWN | {ErrorCode.REQUEST_TIMED_OUT}


class Fetched(NamedTuple):
    """Batches of one answer, to be read from `start` on."""

    start: int
    batches: list[columnar.Batch]


class Problem(NamedTuple):
    """Why nothing comes. A log that is too short for the range has lost records if it stays so."""

    why: str
    is_loss: bool = False


class RangeFetcher:
    """Use once. `problem` is the last thing that went wrong since records came."""

    def __init__(self, client: KafkaClient, task: OffsetRange, options: SourceOptions) -> None:
        self._client = client
        self._task = task
        self._options = options
        self._position = task.start
        self._refresh = False
        self._asked_by_name = False
        self.problem: Problem | None = None

    async def answers(self, pause: Callable[[], Awaitable[None]]) -> AsyncGenerator[Fetched, None]:
        while self._position < self._task.end:
            start = self._position
            data = await self._fetch(start)
            try:
                scanned = await self._judge(data)
            except KafkaError as error:  # of what was asked to understand the answer
                self._try_again(error)
                scanned = None
            if scanned is not None and self._advance(scanned):
                yield Fetched(start, scanned.batches)
            elif self._position == start:
                await pause()
        if self._asked_by_name:
            await self._check_by_name()

    def _advance(self, scanned: columnar.Scan) -> bool:
        """Past all that came, also where none of it is to be read. An answer that does not lead
        further must not be asked for over and over."""
        if scanned.next_offset is not None and scanned.next_offset > self._position:
            self._position = scanned.next_offset
            self.problem = None
            return True
        self.problem = Problem(
            f"the leader of {self._task.topic_partition} sends nothing from offset "
            f"{self._position} on, {self._task.end} is the end of what was to be read"
        )
        return False

    async def _fetch(self, position: int) -> Any:
        """The partition's part of the answer, or the error instead of one."""
        cluster = self._client.cluster
        request_ms = min(self._client.connect.timeout_ms, cluster.request_timeout_ms)
        refresh, self._refresh = self._refresh, False
        request = self._request(position, min(MAX_WAIT_MS, int(request_ms // 2)))
        has_id = self._task.topic_id != ""
        highest = None if has_id else _MAX_VERSION_BY_NAME
        leader = -1
        try:
            leader = await cluster.leader_of(
                self._task.topic_partition, refresh=refresh, timeout_ms=request_ms
            )
            channel = await cluster.channel_to(leader, timeout_ms=request_ms)
            version = channel.version_for(request, min_version=_MIN_VERSION, max_version=highest)
            self._asked_by_name |= has_id and version <= _MAX_VERSION_BY_NAME
            answer = await channel.send(
                request, timeout_ms=request_ms, min_version=_MIN_VERSION, max_version=highest
            )
        except KafkaError as error:
            return error
        except OSError as error:
            return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {leader}: {error}")
        if answer.error_code:
            return response_error(answer.error_code)
        parts = [part for topic in answer.responses for part in topic.partitions]
        if not parts:
            return KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"broker {leader} answered without the partition"
            )
        return parts[0]

    def _request(self, position: int, max_wait_ms: int) -> m.FetchRequest:
        cls = m.FetchRequest
        topic_id = parse_topic_id(self._task.topic_id) if self._task.topic_id else bytes(16)
        partition = cls.FetchPartition(
            partition=self._task.partition,
            fetch_offset=position,
            partition_max_bytes=self._options.fetch_bytes,
        )
        return cls(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=self._options.fetch_bytes,
            isolation_level=int(self._options.read_committed),
            session_epoch=-1,  # no fetch session
            topics=[
                cls.FetchTopic(topic=self._task.topic, topic_id=topic_id, partitions=[partition])
            ],
        )

    async def _judge(self, data: Any) -> columnar.Scan | None:
        """The batches of an answer; None after a failure that may pass."""
        if isinstance(data, KafkaError):
            await self._meet(data)
            return None
        if data.error_code:
            await self._meet(response_error(data.error_code))
            return None
        if not data.records:
            self._note_end(data)
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
            raise corrupt(self._task, self._position, error) from error

    def _note_end(self, data: Any) -> None:
        """Nothing came. A leader may lag for a moment after a failover; a log that was cut off
        stays short."""
        end = data.last_stable_offset if self._options.read_committed else data.high_watermark
        self.problem = Problem(
            f"{self._task.topic_partition} ends at offset {end}, {self._position} to "
            f"{self._task.end} were to be read: its log was cut off",
            is_loss=True,
        )

    async def _meet(self, error: KafkaError) -> None:
        """Raises unless the failure may pass or the options allow what it means."""
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            await self._out_of_range()
            return
        if error.code in _ID_UNKNOWN:
            loss = await self._loss_of_topic()
            if loss is not None:
                await self._leave_out(loss)
                return
        self._try_again(error)

    def _try_again(self, error: KafkaError) -> None:
        """With fresh metadata; raises where that would not help."""
        where = self._task.topic_partition
        if error.code not in _PASSING:
            raise SourceError(f"{where} cannot be read: {error}")
        self.problem = Problem(f"{where} could not be read for a while: {error}")
        self._refresh = True

    async def _out_of_range(self) -> None:
        where = self._task.topic_partition
        earliest = (await self._client.find_offsets({where: EARLIEST}))[where]
        if earliest > self._position:
            why = (
                f"offset {self._position} of {where} has aged out: the oldest is {earliest}. "
                "Records were deleted before they were read (retention)"
            )
            await self._leave_out(Loss(where.topic, why), to=earliest)
            return
        loss = await self._loss_of_topic()
        why = f"{where} does not reach offset {self._position} any more: it was cut off"
        await self._leave_out(loss or Loss(where.topic, why))

    async def _leave_out(self, loss: Loss, to: int | None = None) -> None:
        """Goes on at `to`, or not at all, where the options allow the loss."""
        accept(loss, self._options)
        if loss.recreated and self._options.kept_group is not None:
            await self._check_carried(self._options.kept_group)
        self._position = self._task.end if to is None else to

    async def _loss_of_topic(self) -> Loss | None:
        """Is the topic still the one that the range speaks of?"""
        topic = self._task.topic
        try:
            found = await self._client.find_existing_topics(
                Subscription("subscribe", topics=(topic,))
            )
        except TopicMissing:
            return Loss(topic, f"topic {topic} was deleted while it was being read")
        if same_topic(self._task.topic_id, found[topic].topic_id):
            return None
        return Loss(
            topic,
            f"topic {topic} was deleted and made again while it was being read: its id is "
            f"{found[topic].topic_id}, was {self._task.topic_id}",
            recreated=True,
        )

    async def _check_carried(self, group_id: str) -> None:
        """What is left out here is read in the new topic; raises where the query cannot go on
        there, so that it does not count as read."""
        topic = self._task.topic
        subscription = Subscription("subscribe", topics=(topic,))
        now = (await self._client.find_existing_topics(subscription))[topic]
        await carried_to(self._client, group_id, topic, now, self._task.topic_id)

    async def _check_by_name(self) -> None:
        """Brokers before Kafka 3.1 are asked by name, and answer for whatever has it. Records that
        are not the range's have been handed out by now: no option makes that right."""
        loss = await self._loss_of_topic()
        if loss is not None and loss.recreated:
            raise TopicRecreated(f"{loss.why}. Some of its records may have been read instead")


def corrupt(task: OffsetRange, position: int, error: WireError) -> SourceError:
    return SourceError(f"{task.topic_partition} cannot be read from offset {position}: {error}")
