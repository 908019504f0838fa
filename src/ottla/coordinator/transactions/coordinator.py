"""The transaction coordinator: finds the transactional id, applies the rules of `transaction.py`,
writes what they ask for and has the markers sent (TransactionCoordinator).

One per broker; it owns the ids whose partition of `__transaction_state` this broker leads. Every
call decides in one go without waiting, marks the transaction as pending, and only then waits for
the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Coroutine
from typing import NamedTuple, Protocol

from ottla.coordinator.fenced_topics import FencedTopics
from ottla.coordinator.ports import ClusterMetadata, CoordinatorConfig, CoordinatorReplicas
from ottla.coordinator.shards import Shard, Shards, ShardSettings
from ottla.coordinator.transactions import transaction as transactions
from ottla.coordinator.transactions.markers import MarkerOrder, MarkerSender
from ottla.coordinator.transactions.records import TransactionReplay, encode_key, encode_value
from ottla.coordinator.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    State,
    Step,
    Transaction,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime
from ottla.topics.names import TRANSACTIONS_TOPIC
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

_ALL_REPLICAS = -1
_COMPLETION_RETRY_S = 0.1
_TOMBSTONES_PER_BATCH = 500
# What the log's errors mean to a producer (TransactionStateManager.appendTransactionToLog).
_WRITE_ERRORS: dict[ErrorCode, ErrorCode] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

TransactionShard = Shard[Transaction]


class ProducerIdSource(Protocol):
    async def next_id(self) -> int:
        """Raises KafkaError."""


class ProducerIdentity(NamedTuple):
    producer_id: int
    epoch: int


class InitResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


class TransactionCoordinator:
    """Producers begin, extend and end their transactions; those left open are aborted in time, and
    ids that nobody uses are forgotten."""

    def __init__(
        self,
        runtime: Runtime,
        config: CoordinatorConfig,
        replicas: CoordinatorReplicas,
        metadata: ClusterMetadata,
        producer_ids: ProducerIdSource,
        markers: MarkerSender,
    ) -> None:
        self._clock = runtime.clock
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._markers = markers
        self._max_timeout_ms = config.integer("transaction.max.timeout.ms")
        self._expiration_ms = config.integer("transactional.id.expiration.ms")
        self._abort_interval_ms = config.integer(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        )
        self._expiry_interval_ms = config.integer(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        )
        self._shards = Shards[Transaction](
            runtime.clock,
            ShardSettings(
                TRANSACTIONS_TOPIC,
                config.integer("transaction.state.log.num.partitions"),
                _ALL_REPLICAS,
                config.integer("request.timeout.ms"),
                config.integer("transaction.state.log.load.buffer.size"),
            ),
            replicas,
            metadata,
            new_replay=TransactionReplay,
            on_loaded=self._loaded,
            on_unloaded=self._unloaded,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        # Markers under way, by the partition that their transaction belongs to.
        self._deliveries: dict[int, set[asyncio.Task[None]]] = {}
        self._is_active = False
        # Topics that no transaction may begin to write to: they are being renamed or resized
        # (ADR 51, 53).
        self.fenced_topics = FencedTopics()

    # --- life -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Before the broker takes part in the cluster: leadership is heard of from here on."""
        self._is_active = True
        self._replicas.leadership.add(self._shards.became_leader, self._shards.resigned)
        self._spawn(self._abort_regularly())
        self._spawn(self._expire_regularly())

    async def shutdown(self) -> None:
        self._is_active = False
        await self._shards.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._markers.shutdown()

    def partition_for(self, transactional_id: str) -> int:
        """The partition of `__transaction_state` whose leader coordinates the id."""
        return self._shards.partition_for(transactional_id)

    # --- requests of producers --------------------------------------------------------------

    async def init_producer_id(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None
    ) -> InitResult:
        """The producer of this id from now on. An open transaction of the one before is aborted
        first; until that is done the answer is CONCURRENT_TRANSACTIONS."""
        if not transactional_id:
            return InitResult(ErrorCode.INVALID_REQUEST)
        if not 0 < timeout_ms <= self._max_timeout_ms:
            return InitResult(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        expected_id, expected_epoch = expected or (None, None)
        fresh_id: int | None = None
        while True:
            shard = self._find(transactional_id)
            if isinstance(shard, ErrorCode):
                return InitResult(shard)
            found = shard.entries.get(transactional_id)
            if found is not None:
                error = transactions.check_init(found, expected_id, expected_epoch)
                if error is not ErrorCode.NONE:
                    return InitResult(error)
                if not (found.is_ended and transactions.rotates_producer(found, expected_epoch)):
                    return await self._init(shard, found, timeout_ms, expected_epoch, None)
            if fresh_id is not None:
                if found is None:
                    found = self._create(shard, transactional_id, fresh_id)
                    return await self._init(shard, found, timeout_ms, expected_epoch, None)
                return await self._init(shard, found, timeout_ms, expected_epoch, fresh_id)
            try:
                fresh_id = await self._producer_ids.next_id()
            except KafkaError as failure:
                return InitResult(failure.code)

    async def _init(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        timeout_ms: int,
        expected_epoch: int | None,
        next_producer_id: int | None,
    ) -> InitResult:
        if transaction.state is State.ONGOING:
            error = await self._fence_and_abort(shard, transaction)
            is_aborting = error is ErrorCode.NONE
            return InitResult(ErrorCode.CONCURRENT_TRANSACTIONS if is_aborting else error)
        now_ms = self._clock.now_ms()
        if next_producer_id is not None:
            step: Step | ErrorCode = transaction.prepare_new_producer(
                next_producer_id,
                timeout_ms,
                now_ms,
                keep_last_epoch=expected_epoch is not None,
            )
        else:
            step = transaction.prepare_new_epoch(timeout_ms, expected_epoch, now_ms)
        if isinstance(step, ErrorCode):
            return InitResult(step)
        error = await self._write(shard, transaction, step)
        if error is not ErrorCode.NONE:
            return InitResult(error)
        return InitResult(ErrorCode.NONE, step.producer_id, step.producer_epoch)

    async def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
    ) -> ErrorCode:
        """The partitions belong to the producer's transaction, which begins with the first."""
        located = self._locate(transactional_id, producer)
        if isinstance(located, ErrorCode):
            return located
        shard, transaction = located
        error = transactions.check_add(transaction)
        if error is not ErrorCode.NONE:
            return error
        if transaction.state is State.ONGOING and transaction.partitions.issuperset(partitions):
            return ErrorCode.NONE
        if any(tp.topic in self.fenced_topics for tp in partitions):
            return ErrorCode.CONCURRENT_TRANSACTIONS  # tried again by every producer
        step = transaction.prepare_partitions(partitions, self._clock.now_ms())
        return await self._write(shard, transaction, step)

    async def end(
        self, transactional_id: str, producer: ProducerIdentity, *, commit: bool
    ) -> ErrorCode:
        """Answered when the outcome is in the log; the markers follow."""
        located = self._locate(transactional_id, producer)
        if isinstance(located, ErrorCode):
            return located
        shard, transaction = located
        answer = transactions.check_end(transaction, commit=commit)
        if answer is not None:
            return answer
        return await self._end(shard, transaction, commit=commit)

    # --- looking ----------------------------------------------------------------------------

    def describe(self, transactional_id: str) -> Transaction | ErrorCode:
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._find(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        found = shard.entries.get(transactional_id)
        return ErrorCode.TRANSACTIONAL_ID_NOT_FOUND if found is None else found

    def list_all(self) -> list[Transaction] | ErrorCode:
        """Every id coordinated here."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if self._shards.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each for shard in self._shards.loaded() for each in shard.entries.values()]

    def open_on(self, topic: str) -> int | ErrorCode:
        """How many transactions have partitions of the topic and want their markers. One that is
        about to get more partitions counts: which they are is not known yet."""
        found = self.list_all()
        if isinstance(found, ErrorCode):
            return found
        return sum(each.may_hold(topic) for each in found)

    # --- by time ----------------------------------------------------------------------------

    async def _abort_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._abort_interval_ms / 1000)
            self.abort_timed_out()

    def abort_timed_out(self) -> int:
        """Fences off and aborts transactions that have been open for too long; how many."""
        now_ms = self._clock.now_ms()
        due = [
            (shard, transaction)
            for shard in self._shards.loaded()
            for transaction in shard.entries.values()
            if transaction.timed_out(now_ms)
        ]
        for shard, transaction in due:
            logger.info("Transaction %s timed out", transaction.transactional_id)
            self._spawn(self._abort_late(shard, transaction))
        return len(due)

    async def _abort_late(self, shard: TransactionShard, transaction: Transaction) -> None:
        if self._shards.owns(shard) and transaction.timed_out(self._clock.now_ms()):
            error = await self._fence_and_abort(shard, transaction)
            if error is not ErrorCode.NONE:
                logger.warning("%s was not aborted: %s", transaction.transactional_id, error.name)

    async def _expire_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._expiry_interval_ms / 1000)
            await self.expire()

    async def expire(self) -> int:
        """Forgets ids that nobody used for transactional.id.expiration.ms; how many."""
        count = 0
        for shard in self._shards.loaded():
            now_ms = self._clock.now_ms()
            due = [
                transaction
                for transaction in shard.entries.values()
                if transaction.expired(now_ms, self._expiration_ms)
            ]
            for start in range(0, len(due), _TOMBSTONES_PER_BATCH):
                count += await self._forget(shard, due[start : start + _TOMBSTONES_PER_BATCH])
        return count

    async def _forget(self, shard: TransactionShard, due: Collection[Transaction]) -> int:
        now_ms = self._clock.now_ms()
        still_due = [each for each in due if each.expired(now_ms, self._expiration_ms)]
        for transaction in still_due:
            transaction.prepare_dead()
        error, _ = await self._shards.append(
            shard, [(encode_key(each.transactional_id), None) for each in still_due]
        )
        for transaction in still_due:
            if error is ErrorCode.NONE:
                shard.entries.pop(transaction.transactional_id, None)
            else:
                transaction.give_up()
        if error is not ErrorCode.NONE:
            logger.warning("Expired transactional ids were not removed: %s", error.name)
            return 0
        return len(still_due)

    # --- inside ---------------------------------------------------------------------------

    def _find(self, transactional_id: str) -> TransactionShard | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return self._shards.find(transactional_id)

    def _locate(
        self, transactional_id: str, producer: ProducerIdentity
    ) -> tuple[TransactionShard, Transaction] | ErrorCode:
        """The transaction of its current producer, or the answer to anybody else."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        shard = self._find(transactional_id)
        if isinstance(shard, ErrorCode):
            return shard
        found = shard.entries.get(transactional_id)
        error = transactions.check_producer(found, *producer)
        if found is None or error is not ErrorCode.NONE:
            return error
        return shard, found

    def _create(
        self, shard: TransactionShard, transactional_id: str, producer_id: int
    ) -> Transaction:
        """In memory only, until its first epoch is in the log."""
        created = Transaction(transactional_id, producer_id, update_ms=self._clock.now_ms())
        shard.entries[transactional_id] = created
        return created

    async def _fence_and_abort(
        self, shard: TransactionShard, transaction: Transaction
    ) -> ErrorCode:
        transaction.fence()
        error = await self._end(shard, transaction, commit=False)
        if error is not ErrorCode.NONE:
            transaction.fence_failed = True
        return error

    async def _end(
        self, shard: TransactionShard, transaction: Transaction, *, commit: bool
    ) -> ErrorCode:
        step = transaction.prepare_end(commit=commit, now_ms=self._clock.now_ms())
        error = await self._write(shard, transaction, step)
        if error is ErrorCode.NONE:
            self._send_markers(shard, transaction)
        return error

    async def _write(
        self, shard: TransactionShard, transaction: Transaction, step: Step
    ) -> ErrorCode:
        """Brings a step into the log and takes it over."""
        entry = (encode_key(transaction.transactional_id), encode_value(step))
        error, _ = await self._shards.append(shard, [entry])
        if not self._shards.owns(shard):
            return ErrorCode.NOT_COORDINATOR
        if error is ErrorCode.NONE:
            transaction.complete(step)
        else:
            transaction.give_up()
        return _WRITE_ERRORS.get(error, error)

    def _send_markers(self, shard: TransactionShard, transaction: Transaction) -> None:
        """The outcome is in the log, so from here on only another coordinator can stop this."""
        order = MarkerOrder(
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is State.PREPARE_COMMIT,
            shard.leader_epoch,
            transaction.partitions,
        )
        step = transaction.prepare_complete(self._clock.now_ms())
        task = self._spawn(self._complete(shard, transaction, step, order))
        under_way = self._deliveries.setdefault(shard.partition, set())
        under_way.add(task)
        task.add_done_callback(under_way.discard)

    async def _complete(
        self, shard: TransactionShard, transaction: Transaction, step: Step, order: MarkerOrder
    ) -> None:
        if not await self._markers.deliver(order, transaction.marked):
            logger.info("%s has another coordinator now", transaction.transactional_id)
            return
        entry = (encode_key(transaction.transactional_id), encode_value(step))
        while self._shards.owns(shard):
            error, _ = await self._shards.append(shard, [entry])
            if error is ErrorCode.NONE and self._shards.owns(shard):
                transaction.complete(step)
                return
            # The markers are out: only this record is missing, and it may be written twice.
            await asyncio.sleep(_COMPLETION_RETRY_S)

    def _loaded(self, shard: TransactionShard) -> None:
        """Transactions whose outcome was decided get their markers from this coordinator."""
        for transaction in shard.entries.values():
            if transaction.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
                self._send_markers(shard, transaction)

    def _unloaded(self, shard: TransactionShard) -> None:
        for task in self._deliveries.pop(shard.partition, ()):
            task.cancel()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Work of the transaction coordinator failed", exc_info=error)
