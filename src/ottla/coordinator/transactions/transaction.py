"""What a transactional id may do next: a state machine without IO (TransactionMetadata).

Each step is prepared first: `prepare_*` says what is to be written to `__transaction_state` and
marks the transaction as on its way there; `complete` takes it over once the log has it, `give_up`
where it does not. Nothing else may happen to the transaction in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ottla.errors import ErrorCode, InvariantViolated
from ottla.types import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NO_TIMESTAMP = -1
_SHORT_MAX = 32767


class State(IntEnum):
    """The numbers are those in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7


# As clients see them (DescribeTransactions, ListTransactions).
STATE_NAMES: dict[State, str] = {
    State.EMPTY: "Empty",
    State.ONGOING: "Ongoing",
    State.PREPARE_COMMIT: "PrepareCommit",
    State.PREPARE_ABORT: "PrepareAbort",
    State.COMPLETE_COMMIT: "CompleteCommit",
    State.COMPLETE_ABORT: "CompleteAbort",
    State.DEAD: "Dead",
    State.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

_ENDED = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

VALID_PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: _ENDED,
    State.ONGOING: _ENDED | {State.ONGOING},
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: frozenset({State.ONGOING, State.PREPARE_EPOCH_FENCE}),
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: _ENDED,
    State.PREPARE_EPOCH_FENCE: frozenset({State.ONGOING}),
}


def epoch_is_exhausted(epoch: int) -> bool:
    """The last epoch is kept for fencing: a producer never gets it."""
    return epoch >= _SHORT_MAX - 1


class Step(NamedTuple):
    """What a transaction becomes once this is in the log."""

    state: State
    producer_id: int
    producer_epoch: int
    last_producer_epoch: int
    timeout_ms: int
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int


@dataclass(slots=True, eq=False)
class Transaction:
    """One transactional id with its current or last transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = NO_TIMESTAMP
    update_ms: int = NO_TIMESTAMP
    # What a retried InitProducerId may name instead (KIP-360); not in the log.
    last_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    # The state that is on its way into the log.
    pending: State | None = None
    # An epoch was raised in memory and the log refused it: it is not raised twice.
    fence_failed: bool = False

    # --- looking ----------------------------------------------------------------------------

    @property
    def is_ended(self) -> bool:
        return self.state in _ENDED

    def may_hold(self, topic: str) -> bool:
        """Whether an open transaction has, or may be about to get, partitions of the topic."""
        if self.pending is State.ONGOING:
            return True
        return any(tp.topic == topic for tp in self.partitions)

    def timed_out(self, now_ms: int) -> bool:
        is_open = self.state is State.ONGOING and self.pending is None
        return is_open and self.start_ms + self.timeout_ms < now_ms

    def expired(self, now_ms: int, expiration_ms: int) -> bool:
        is_idle = self.is_ended and self.pending is None
        return is_idle and self.update_ms <= now_ms - expiration_ms

    # --- steps ------------------------------------------------------------------------------

    def prepare_new_epoch(
        self, timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> Step | ErrorCode:
        """InitProducerId: the next epoch. `expected_epoch` is what a producer that goes on after
        an error says it has; the same call made again gets the same answer (KIP-360)."""
        if self._exhausted:
            return ErrorCode.PRODUCER_FENCED
        epoch, last_epoch = self._bumped_epoch(), NO_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                return ErrorCode.PRODUCER_FENCED
        return self._prepare(
            Step(
                State.EMPTY,
                self.producer_id,
                epoch,
                last_epoch,
                timeout_ms,
                frozenset(),
                NO_TIMESTAMP,
                now_ms,
            )
        )

    def prepare_new_producer(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keep_last_epoch: bool
    ) -> Step:
        """InitProducerId with all epochs used up: another id, from epoch 0 on."""
        last_epoch = self.producer_epoch if keep_last_epoch else NO_EPOCH
        return self._prepare(
            Step(
                State.EMPTY,
                producer_id,
                0,
                last_epoch,
                timeout_ms,
                frozenset(),
                NO_TIMESTAMP,
                now_ms,
            )
        )

    def prepare_partitions(self, added: Iterable[TopicPartition], now_ms: int) -> Step:
        return self._prepare(
            self._same()._replace(
                state=State.ONGOING,
                partitions=self.partitions.union(added),
                start_ms=now_ms if self.is_ended else self.start_ms,
                update_ms=now_ms,
            )
        )

    def fence(self) -> None:
        """Raises the epoch in memory, so that whoever has the current one can do no more; the
        abort that follows at once writes it (Kafka's PrepareEpochFence, which no log ever sees)."""
        if self.state is not State.ONGOING or self.pending is not None:
            raise InvariantViolated(f"{self.transactional_id}: nothing to fence off")
        self.producer_epoch = self._bumped_epoch()
        self.last_producer_epoch = NO_EPOCH

    def prepare_end(self, *, commit: bool, now_ms: int) -> Step:
        state = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
        return self._prepare(self._same()._replace(state=state, update_ms=now_ms))

    def prepare_complete(self, now_ms: int) -> Step:
        """The markers may go out; the end is written when all are there."""
        is_commit = self.state is State.PREPARE_COMMIT
        self.fence_failed = False
        return self._prepare(
            self._same()._replace(
                state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
                partitions=frozenset(),
                update_ms=now_ms,
            )
        )

    def marked(self, partitions: Iterable[TopicPartition]) -> None:
        """They have their markers: those that are left are what the end waits for, and what
        DescribeTransactions shows meanwhile (TransactionMetadata.removePartition)."""
        self.partitions = self.partitions.difference(partitions)

    def prepare_dead(self) -> None:
        self._prepare(self._same()._replace(state=State.DEAD))

    def complete(self, step: Step) -> None:
        """The log has the step."""
        if self.pending is not step.state:
            raise InvariantViolated(
                f"{self.transactional_id}: {step.state.name} is in the log, "
                f"{self.pending and self.pending.name} was prepared"
            )
        if self.producer_epoch != step.producer_epoch or self.producer_id != step.producer_id:
            self.last_producer_id = self.producer_id
        self.pending = None
        self.state = step.state
        self.producer_id = step.producer_id
        self.producer_epoch = step.producer_epoch
        self.last_producer_epoch = step.last_producer_epoch
        self.timeout_ms = step.timeout_ms
        self.partitions = step.partitions
        self.start_ms = step.start_ms
        self.update_ms = step.update_ms

    def give_up(self) -> None:
        """The log does not have the prepared step."""
        self.pending = None

    # --- inside -----------------------------------------------------------------------------

    @property
    def _exhausted(self) -> bool:
        return epoch_is_exhausted(self.producer_epoch)

    def _bumped_epoch(self) -> int:
        return self.producer_epoch if self.fence_failed else self.producer_epoch + 1

    def _same(self) -> Step:
        return Step(
            self.state,
            self.producer_id,
            self.producer_epoch,
            self.last_producer_epoch,
            self.timeout_ms,
            self.partitions,
            self.start_ms,
            self.update_ms,
        )

    def _prepare(self, step: Step) -> Step:
        if self.pending is not None:
            raise InvariantViolated(
                f"{self.transactional_id}: {step.state.name} while {self.pending.name} is pending"
            )
        if self.state not in VALID_PREVIOUS[step.state]:
            raise InvariantViolated(
                f"{self.transactional_id}: {step.state.name} cannot follow {self.state.name}"
            )
        self.pending = step.state
        return step


# --- what a request is answered before anything is done -----------------------------------------


def check_producer(transaction: Transaction | None, producer_id: int, epoch: int) -> ErrorCode:
    """Whether the caller is the transactional id's current producer."""
    if transaction is None or transaction.producer_id != producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def check_add(transaction: Transaction) -> ErrorCode:
    """Whether partitions may be added now."""
    ending = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
    if transaction.pending is not None or transaction.state in ending:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def check_end(transaction: Transaction, *, commit: bool) -> ErrorCode | None:
    """The answer to EndTxn where nothing is to be done; None where the transaction is to end."""
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    prepared = State.PREPARE_COMMIT if commit else State.PREPARE_ABORT
    completed = State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT
    if transaction.state is State.ONGOING:
        return None
    if transaction.state is completed:
        return ErrorCode.NONE
    if transaction.state is prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.INVALID_TXN_STATE


def check_init(
    transaction: Transaction, expected_id: int | None, expected_epoch: int | None
) -> ErrorCode:
    """Whether InitProducerId may go on. The expected id is that of a producer which continues:
    the current one, or the one before it where that had used up its epochs."""
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if (
        expected_id is not None
        and expected_epoch is not None
        and transaction.producer_epoch != NO_EPOCH
        and expected_id != transaction.producer_id
        and not (expected_id == transaction.last_producer_id and epoch_is_exhausted(expected_epoch))
    ):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE


def rotates_producer(transaction: Transaction, expected_epoch: int | None) -> bool:
    """Whether InitProducerId needs another producer id."""
    return epoch_is_exhausted(transaction.producer_epoch) and expected_epoch in (
        None,
        transaction.producer_epoch,
    )
