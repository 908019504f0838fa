"""The coordinator's side of a transaction (KIP-98), as one task of the exactly-once sink uses it.

A task writes under a transactional id of its own. Its transaction also commits the number of the
micro-batch as an offset of a group: both become visible together, or neither does. A task that runs
again first fences the earlier attempt, then looks up that number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from ottla.client.cluster import RETRIABLE, RETRY_PAUSE_MS, Cluster, response_error
from ottla.client.sender import NOBODY, ProducerIdentity
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.sink.notes import Note, Recalled
from ottla.spark.sink.places import Lookup, Places, Slot
from ottla.types import TopicPartition
from ottla.wire import messages as m

T = TypeVar("T")

_GROUP, _TRANSACTION = 0, 1
_FIND_MAX_VERSION = 3
# From the next version on, brokers of Kafka 4 expect the rules of transaction.version=2 (KIP-890).
_INIT_MAX_VERSION = 4
_ADD_PARTITIONS_MAX_VERSION = 3
_ADD_OFFSETS_MAX_VERSION = 3
_COMMIT_OFFSET_MAX_VERSION = 3
_END_MAX_VERSION = 3
# The first that can wait for offsets of transactions under way, and the last for one group.
_OFFSET_FETCH_VERSIONS = (7, 7)
_PASSING = RETRIABLE | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


# Who coordinates what, for all tasks of this process.
_known: WeakKeyDictionary[Cluster, dict[tuple[int, str], int]] = WeakKeyDictionary()
_MAX_KNOWN = 1_000


class Transaction:
    """The transactions of one producer, one after the other; `begin` fences every earlier one of
    the same id."""

    def __init__(
        self, cluster: Cluster, transactional_id: str, *, timeout_ms: float, lifetime_ms: int
    ) -> None:
        self._cluster = cluster
        self.id = transactional_id
        self._timeout_ms = timeout_ms
        self._lifetime_ms = lifetime_ms
        self._coordinators = _known.setdefault(cluster, {})
        self._partitions: set[TopicPartition] = set()
        self.identity = NOBODY

    async def begin(self) -> ProducerIdentity:
        try:
            answer = await self._ask(
                (_TRANSACTION, self.id),
                m.InitProducerIdRequest(
                    transactional_id=self.id, transaction_timeout_ms=self._lifetime_ms
                ),
                lambda answer: answer.error_code,
                max_version=_INIT_MAX_VERSION,
            )
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise KafkaError(
                error.code,
                f"kafka.transaction.timeout.ms={self._lifetime_ms} is more than the brokers allow "
                "(transaction.max.timeout.ms): ask for less, tasks that take longer are written in "
                "several transactions",
            ) from error
        self.identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        return self.identity

    async def recall(self, places: Places, lookups: Iterable[Lookup]) -> Recalled:
        """What is noted at the task's own places, for which it waits while somebody writes there,
        and the newest micro-batch at any of the others."""
        answers = await asyncio.gather(*(self._committed(lookup, places) for lookup in lookups))
        notes = {slot: note for answer in answers for slot, note in answer.items()}
        mine = [note for slot, note in notes.items() if places.is_own(slot)]
        return Recalled(
            # Of several topics the one that was written last knows of the most rows.
            max(mine, key=_progress, default=Note()),
            max((note.batch_id for note in notes.values()), default=-1),
        )

    async def _committed(self, lookup: Lookup, places: Places) -> dict[Slot, Note]:
        cls = m.OffsetFetchRequest
        request = cls(
            group_id=lookup.group,
            topics=None
            if lookup.topics is None
            else [
                cls.OffsetFetchRequestTopic(name=name, partition_indexes=list(partitions))
                for name, partitions in lookup.topics.items()
            ],
            require_stable=True,
        )

        def code_of(answer: Any) -> int:
            """Others may be about to commit: their notes are read without waiting for it."""
            unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
            codes = [
                p.error_code
                for topic in answer.topics
                for p in topic.partitions
                if p.error_code != unstable
                or places.is_own(Slot(lookup.group, topic.name, p.partition_index))
            ]
            return int(answer.error_code or next((code for code in codes if code), 0))

        low, high = _OFFSET_FETCH_VERSIONS
        answer = await self._ask(
            (_GROUP, lookup.group), request, code_of, min_version=low, max_version=high
        )
        return {
            Slot(lookup.group, topic.name, p.partition_index): Note.parse(
                int(p.committed_offset), p.metadata
            )
            for topic in answer.topics
            for p in topic.partitions
            if not p.error_code
        }

    async def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Makes partitions part of the transaction; before the first record goes there."""
        fresh = set(partitions) - self._partitions
        if not fresh:
            return
        topics: dict[str, list[int]] = {}
        for partition in sorted(fresh):
            topics.setdefault(partition.topic, []).append(partition.partition)
        cls = m.AddPartitionsToTxnRequest
        request = cls(
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                cls.AddPartitionsToTxnTopic(name=name, partitions=indexes)
                for name, indexes in topics.items()
            ],
        )

        def code_of(answer: Any) -> int:
            results = [
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            ]
            # One that failed leaves the others with OPERATION_NOT_ATTEMPTED.
            told = [code for code in results if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
            return int(next((code for code in told if code), 0))

        await self._ask(
            (_TRANSACTION, self.id), request, code_of, max_version=_ADD_PARTITIONS_MAX_VERSION
        )
        self._partitions |= fresh

    async def commit_note(self, slot: Slot, note: Note) -> None:
        """Puts a note about the micro-batch into the transaction."""
        await self._ask(
            (_TRANSACTION, self.id),
            m.AddOffsetsToTxnRequest(
                transactional_id=self.id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=slot.group,
            ),
            lambda answer: answer.error_code,
            max_version=_ADD_OFFSETS_MAX_VERSION,
        )
        cls = m.TxnOffsetCommitRequest
        request = cls(
            transactional_id=self.id,
            group_id=slot.group,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[
                cls.TxnOffsetCommitRequestTopic(
                    name=slot.topic,
                    partitions=[
                        cls.TxnOffsetCommitRequestPartition(
                            partition_index=slot.partition,
                            committed_offset=note.batch_id,
                            committed_metadata=note.metadata(),
                        )
                    ],
                )
            ],
        )
        await self._ask(
            (_GROUP, slot.group),
            request,
            lambda answer: next(
                (p.error_code for t in answer.topics for p in t.partitions if p.error_code), 0
            ),
            max_version=_COMMIT_OFFSET_MAX_VERSION,
        )

    async def end(self, *, commit: bool) -> None:
        """The next transaction of this producer begins with what is added to it."""
        self._partitions.clear()
        await self._ask(
            (_TRANSACTION, self.id),
            m.EndTxnRequest(
                transactional_id=self.id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                committed=commit,
            ),
            lambda answer: answer.error_code,
            max_version=_END_MAX_VERSION,
        )

    async def _ask(
        self,
        key: tuple[int, str],
        request: Any,
        code_of: Callable[[Any], int],
        *,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        """To the coordinator of a group or a transaction, until it answers without an error."""

        async def attempt(left_ms: float) -> Any:
            # A coordinator that says nothing must leave time for its successor.
            request_ms = min(left_ms, self._cluster.request_timeout_ms)
            try:
                coordinator = self._coordinators.get(key)
                if coordinator is None:
                    coordinator = await self._find(key, left_ms)
                    while len(self._coordinators) >= _MAX_KNOWN:
                        self._coordinators.pop(next(iter(self._coordinators)))
                    self._coordinators[key] = coordinator
                channel = await self._cluster.channel_to(coordinator, timeout_ms=request_ms)
                answer = await channel.send(
                    request,
                    timeout_ms=request_ms,
                    min_version=min_version,
                    max_version=max_version,
                )
            except OSError as error:
                self._coordinators.pop(key, None)
                await self._cluster.metadata(timeout_ms=left_ms)
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
            code = code_of(answer)
            if code in RETRIABLE:
                self._coordinators.pop(key, None)
            if code:
                raise response_error(code)
            return answer

        return await self._retry(attempt, f"{type(request).__name__} for {key[1]}")

    async def _find(self, key: tuple[int, str], timeout_ms: float) -> int:
        answer = await self._cluster.send_to_any(
            m.FindCoordinatorRequest(key=key[1], key_type=key[0]),
            timeout_ms=timeout_ms,
            min_version=1,
            max_version=_FIND_MAX_VERSION,
        )
        if answer.error_code:
            raise response_error(answer.error_code, answer.error_message or None)
        return int(answer.node_id)

    async def _retry(self, attempt: Callable[[float], Awaitable[T]], what: str) -> T:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        pause_s = 0.002
        while True:
            try:
                return await attempt(max((deadline - loop.time()) * 1000, 1))
            except KafkaError as error:
                if error.code not in _PASSING or loop.time() + pause_s > deadline:
                    raise KafkaError(error.code, f"{what}: {error}") from error
            # The markers of an earlier transaction take a moment: look again soon, then slower.
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_PAUSE_MS / 1000)


def _progress(note: Note) -> tuple[int, int, bool]:
    return note.batch_id, note.rows or 0, note.finished
