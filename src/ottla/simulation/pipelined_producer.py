"""An idempotent producer that sends on before it is answered, as Kafka's own does.

Up to five batches of a partition are under way at once (max.in.flight.requests.per.connection, the
most of which a broker remembers the sequences). Whatever is not acknowledged is sent again, in its
order and with its sequence numbers: most of it is there already, or comes before its turn. What one
leader refused may come to the next one later than what stands behind it, as librdkafka's does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.client.cluster import Cluster, response_error
from ottla.errors import ErrorCode, KafkaError
from ottla.simulation.stage import EXPECTED
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    from ottla.client.cluster import Channel
    from ottla.runtime import Runtime
    from ottla.simulation.stage import Stage

_IN_FLIGHT = 5
_MAX_BATCH = 3
_ACKS_TIMEOUT_MS = 3_000
_REQUEST_TIMEOUT_MS = 5_000.0
_GIVE_UP_S = 15.0
_PAUSE_S = 0.1
_MAX_VERSION = 12
_REFUSED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
_IN_THE_LOG = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class _Batch(NamedTuple):
    values: list[bytes]
    data: bytes


class PipelinedProducer:
    """One partition at a time; after a failure a new producer id, new records, maybe another."""

    def __init__(self, stage: Stage, name: str, runtime: Runtime) -> None:
        self._stage = stage
        self._name = name
        self._runtime = runtime
        self._random = stage.random_of(name)
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._lives = 0
        self._unacknowledged: deque[_Batch] = deque()
        # The leader of the last round, and how many of the first batches it refused.
        self._refused_by = -1
        self._refused = 0

    async def run(self) -> None:
        while not self._stage.is_ending:
            self._lives += 1
            tp = self._random.choice(self._stage.partitions)
            try:
                await self._live(tp, f"{self._name}.{self._lives}".encode())
            except KafkaError as error:
                self._stage.note(self._name, error.code.name)
                if error.code not in EXPECTED:
                    self._stage.violated(f"{self._name} was told {error.code.name}: {error}")
                await asyncio.sleep(_PAUSE_S)
        await self._cluster.close()

    async def _live(self, tp: TopicPartition, name: bytes) -> None:
        request = m.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        answer = await self._cluster.send_to_any(request, timeout_ms=_REQUEST_TIMEOUT_MS)
        _check(answer.error_code)
        producer = answer.producer_id, answer.producer_epoch
        self._unacknowledged.clear()
        self._refused = 0
        loop = asyncio.get_running_loop()
        sequence, last_progress = 0, loop.time()
        while self._unacknowledged or not self._stage.is_ending:
            await asyncio.sleep(self._random.uniform(*self._stage.plan.pause_ms) / 1000)
            while len(self._unacknowledged) < self._random.randint(1, _IN_FLIGHT):
                batch = self._new_batch(producer, name, sequence)
                self._unacknowledged.append(batch)
                sequence += len(batch.values)
            waiting = len(self._unacknowledged)
            failure = await self._send_round(tp)
            now = loop.time()
            if len(self._unacknowledged) < waiting:
                last_progress = now
            elif now - last_progress > _GIVE_UP_S and failure is not None:
                raise failure

    def _new_batch(self, producer: tuple[int, int], name: bytes, sequence: int) -> _Batch:
        count = self._random.randint(1, _MAX_BATCH)
        values = [b"%b/%d" % (name, sequence + number) for number in range(count)]
        now_ms = self._runtime.clock.now_ms()
        data = build_batch(
            [Record(None, value, now_ms) for value in values],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
        )
        return _Batch(values, data)

    async def _send_round(self, tp: TopicPartition) -> KafkaError | None:
        """What is not acknowledged, one request each, without waiting in between."""
        try:
            leader = await self._cluster.leader_of(tp, refresh=True, timeout_ms=_REQUEST_TIMEOUT_MS)
            channel = await self._cluster.channel_to(leader, timeout_ms=_REQUEST_TIMEOUT_MS)
            late = self._how_many_are_late(leader)
            batches = list(self._unacknowledged)[late:]
            answers = await asyncio.gather(*(self._send(channel, tp, b.data) for b in batches))
        except KafkaError as error:
            return error
        except OSError as error:
            return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
        self._stage.note(self._name, f"{tp}: {late} late, {[int(code) for code in answers]}")
        there = [code in _IN_THE_LOG for code in answers]
        # An answer counts for those before it as well, as for librdkafka.
        answered = len(there) - there[::-1].index(True) if any(there) else 0
        for _ in range(late + answered if answered else 0):
            batch = self._unacknowledged.popleft()
            self._stage.ledger.acknowledged(tp, batch.values)
        missing = answers[answered:]
        self._refused_by = leader
        self._refused = next((n for n, c in enumerate(missing) if c not in _REFUSED), len(missing))
        if not missing:
            return None
        failure = response_error(missing[0])
        if failure.code not in EXPECTED:
            raise failure
        return failure

    def _how_many_are_late(self, leader: int) -> int:
        """Those that the leader before refused are not back in the queue when the rest leaves."""
        most = min(self._refused, len(self._unacknowledged) - 1)
        if leader == self._refused_by or most <= 0:
            return 0
        return self._random.randint(0, most)

    async def _send(self, channel: Channel, tp: TopicPartition, data: bytes) -> int:
        request_class = m.ProduceRequest
        request = request_class(
            acks=-1,
            timeout_ms=_ACKS_TIMEOUT_MS,
            topic_data=[
                request_class.TopicProduceData(
                    name=tp.topic,
                    partition_data=[
                        request_class.PartitionProduceData(
                            index=tp.partition, records=memoryview(data)
                        )
                    ],
                )
            ],
        )
        try:
            answer: Any = await channel.send(
                request, timeout_ms=_REQUEST_TIMEOUT_MS, max_version=_MAX_VERSION
            )
        except OSError:
            return ErrorCode.NETWORK_EXCEPTION
        code: int = answer.responses[0].partition_responses[0].error_code
        return code


def _check(code: int) -> None:
    if code:
        raise response_error(code)
