"""Stores finished batches at the leaders of their partitions, each one once.

A batch is sent again until its leader has taken it, refuses it for good, or the time is over. With
acks=all it carries a producer id and a sequence number (KIP-98), so that a batch whose answer was
lost is not stored twice. What is in a batch, and when it goes, is the caller's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import DEFAULT_TIMEOUT_MS, MOVED, RETRY_PAUSE_MS, response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

ACKS_ALL = -1
_NO_SEQUENCE = -1
_MAX_SEQUENCE = 1 << 31
# Batches of format 2 come from 3 on; from 12 on Kafka 4 expects transaction.version=2 (KIP-890).
_PRODUCE_VERSIONS = (3, 11)
PASSING = MOVED | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
# A sequence number that is there already: the answer to the first attempt was lost.
_STORED = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
# Brokers that give no producer id to this user, or to anybody.
_NO_PRODUCER_ID = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION})

Batches = dict[TopicPartition, memoryview]


class ProducerIdentity(NamedTuple):
    """Who writes; the default is nobody, whose batches have no sequence numbers."""

    producer_id: int = -1
    epoch: int = -1


NOBODY = ProducerIdentity()


class NotStored(KafkaError):
    """A batch that its leader refuses for good, or that did not get through in time."""

    def __init__(self, partition: TopicPartition, error: KafkaError, batch_bytes: int) -> None:
        super().__init__(error.code, str(error))
        self.partition = partition
        self.batch_bytes = batch_bytes


class BatchSender:
    """One producer: its identity, its sequence numbers, and how long it keeps trying."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ACKS_ALL,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        transactional_id: str | None = None,
        identity: ProducerIdentity = NOBODY,
        sequences: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`sequences` are those that an identity goes on with, where it has written before."""
        self._cluster = cluster
        self._acks = acks
        self.timeout_ms = timeout_ms
        self._transactional_id = transactional_id
        self._sequences = dict(sequences or {})
        self.identity = identity
        # Where the last batch of each partition begins; -1 where its leader did not say.
        self.base_offsets: dict[TopicPartition, int] = {}

    async def start(self) -> None:
        """Gets a producer id where none was given and batches can have one."""
        if self._acks == ACKS_ALL and self.identity == NOBODY:
            self.identity = await self._init_producer_id()

    def take_sequence(self, partition: TopicPartition, record_count: int) -> int:
        """The sequence number of the partition's next batch, -1 where batches have none."""
        if self.identity == NOBODY:
            return _NO_SEQUENCE
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = (sequence + record_count) % _MAX_SEQUENCE
        return sequence

    async def send(self, pending: Batches) -> None:
        """Stores one batch per partition and takes it out of `pending`; raises NotStored for the
        first that cannot be."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_ms / 1000
        refresh = False
        while pending:
            left_ms = max((deadline - loop.time()) * 1000, 1)
            failed = await self._send_round(pending, refresh, left_ms)
            for partition in [partition for partition in pending if partition not in failed]:
                del pending[partition]
            for partition, error in failed.items():
                if error.code not in PASSING or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                    raise NotStored(partition, error, len(pending[partition]))
            if pending:
                refresh = True
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    async def _send_round(
        self, pending: Batches, refresh: bool, left_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """One request to each leader; what failed, by partition."""
        by_leader = await self._cluster.by_leader(pending, refresh=refresh, timeout_ms=left_ms)
        # A leader that says nothing must leave time for its successor.
        request_ms = min(left_ms, self._cluster.request_timeout_ms)
        answers = await asyncio.gather(
            *(
                self.send_to(leader, {p: pending[p] for p in group}, request_ms)
                for leader, group in by_leader.items()
            )
        )
        return {partition: error for answer in answers for partition, error in answer.items()}

    async def send_to(
        self, leader: int, batches: Batches, timeout_ms: float
    ) -> dict[TopicPartition, KafkaError]:
        """One request, once; what failed, by partition. Calls that are begun in an order write
        their requests in that order."""
        request = self._request(batches, timeout_ms)
        low, high = _PRODUCE_VERSIONS
        try:
            channel = await self._cluster.channel_to(leader, timeout_ms=timeout_ms)
            if self._acks == 0:
                channel.send_without_answer(request, min_version=low, max_version=high)
                return {}
            answer = await channel.send(
                request, timeout_ms=timeout_ms, min_version=low, max_version=high
            )
        except OSError as error:
            text = f"broker {leader} cannot be reached: {error}"
            return dict.fromkeys(batches, KafkaError(ErrorCode.NETWORK_EXCEPTION, text))
        for topic in answer.responses:
            for result in topic.partition_responses:
                self.base_offsets[TopicPartition(topic.name, result.index)] = result.base_offset
        # What an answer does not speak of is not known to be stored.
        text = f"broker {leader} answered without the partition"
        failed = dict.fromkeys(batches, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text))
        return {p: error for p, error in (failed | dict(_results(answer))).items() if error}

    def _request(
        self, batches: Mapping[TopicPartition, memoryview], timeout_ms: float
    ) -> m.ProduceRequest:
        cls = m.ProduceRequest
        topics: dict[str, list[m.ProduceRequest.PartitionProduceData]] = {}
        for partition, batch in batches.items():
            topics.setdefault(partition.topic, []).append(
                cls.PartitionProduceData(index=partition.partition, records=batch)
            )
        return cls(
            transactional_id=self._transactional_id,
            acks=self._acks,
            timeout_ms=int(timeout_ms),
            topic_data=[
                cls.TopicProduceData(name=name, partition_data=data)
                for name, data in topics.items()
            ],
        )

    async def _init_producer_id(self) -> ProducerIdentity:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout_ms / 1000
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        while True:
            try:
                answer = await self._cluster.send_to_any(request, timeout_ms=self.timeout_ms)
                if not answer.error_code:
                    return ProducerIdentity(answer.producer_id, answer.producer_epoch)
                error = response_error(answer.error_code)
            except KafkaError as failure:
                error = failure
            if error.code in _NO_PRODUCER_ID:
                return NOBODY
            # Right after a start no coordinator can hand out ids yet.
            passing = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            if not passing or loop.time() + RETRY_PAUSE_MS / 1000 > deadline:
                raise error
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)


def _results(answer: Any) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    for topic in answer.responses:
        for result in topic.partition_responses:
            error = None
            if result.error_code not in _STORED:
                error = response_error(result.error_code, result.error_message or None)
            yield TopicPartition(topic.name, result.index), error
