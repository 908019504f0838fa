"""Appends of producers and coordinators: every rule that a batch has to pass, for both lanes.

The general lane (`append`) takes any batches and answers with everything a client is told. The
direct lane (`append_plain`, broker/requests/direct_produce.py) takes batches that need no second
look; where one does, it does nothing, and the batch is new to the general lane.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.replication.examiner import Examiner
from ottla.broker.replication.key_guards import KeyGuards, Sender
from ottla.broker.replication.produce_waits import ProduceWait, SingleProduceWait
from ottla.broker.replication.refusals import Refusals
from ottla.broker.replication.timeouts import Timeouts
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.storage.append.leader import Checked
from ottla.storage.append.record_rules import RecordError, RecordsRejected
from ottla.storage.log.log import AppendInfo, Log
from ottla.topics.names import is_internal
from ottla.types import TopicPartition
from ottla.wire.records import (
    ATTRIBUTES_LOW_AT,
    HEADER_BYTES,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL,
    size_at,
)

if TYPE_CHECKING:
    from ottla.broker.replication.hosted import HostedPartitions
    from ottla.broker.replication.partition import Partition
    from ottla.runtime import Clock
    from ottla.storage.manager.log_manager import LogManager

logger = logging.getLogger(__name__)
ALL_REPLICAS = -1
_VALID_ACKS = (ALL_REPLICAS, 0, 1)
_ADMIN_CLIENT = "__admin_client"
# flush.messages of a topic that is not flushed by the number of its records.
_NEVER = 0x7FFFFFFFFFFFFFFF
# The append time of a batch that keeps its own.
_NO_TIME = -1
# Refusals that do not tell the log's start (ReplicaManager.appendToLocalLog).
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class ProduceResult(NamedTuple):
    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[RecordError, ...] = ()


def is_open_to_all(topic: str, acks: int) -> bool:
    """Whether anybody may append to the topic in this way; the direct lane asks once per form."""
    return acks in _VALID_ACKS and not is_internal(topic)


class Appends:
    """The append service of one broker. `refusals` are its memory of batches refused for now."""

    def __init__(
        self,
        partitions: HostedPartitions,
        log_manager: LogManager,
        clock: Clock,
        timeouts: Timeouts,
        examiner: Examiner,
    ) -> None:
        self.partitions = partitions
        self._log_manager = log_manager
        self._clock = clock
        self._timeouts = timeouts
        self._examiner = examiner
        self.refusals = Refusals(clock.monotonic_ms)
        self._key_guards = KeyGuards(clock, partitions.partition_count)
        # Of all producers since the broker started, for those who look at it.
        self.taken_bytes = 0
        self.taken_records = 0
        # Of the direct lane: no handler has seen them.
        self.direct_requests = 0

    # --- the general lane -------------------------------------------------------------------

    async def append(
        self,
        entries: Mapping[TopicPartition, memoryview],
        *,
        acks: int,
        timeout_ms: int,
        internal_topics_allowed: bool = False,
        from_coordinator: bool = False,
        client_id: str | None = None,
        client_host: str = "",
    ) -> dict[TopicPartition, ProduceResult]:
        """Appends as leader; with acks -1 it returns when the in-sync replicas have it all."""
        if acks not in _VALID_ACKS:
            return {tp: ProduceResult(ErrorCode.INVALID_REQUIRED_ACKS) for tp in entries}
        allowed = internal_topics_allowed or from_coordinator or client_id == _ADMIN_CLIENT
        origin = Origin.COORDINATOR if from_coordinator else Origin.CLIENT
        sender = Sender(client_host, client_id)
        results: dict[TopicPartition, ProduceResult] = {}
        wait: ProduceWait | None = None
        for tp, data in entries.items():
            try:
                if is_internal(tp.topic) and not allowed:
                    raise KafkaError(
                        ErrorCode.INVALID_TOPIC_EXCEPTION,
                        f"Cannot append to internal topic {tp.topic}",
                    )
                info = self._append_plainly(tp, data, acks, origin)
                if info is None:
                    checked = await self._checked(tp, data, acks, origin, sender)
                # Only now: whose it is may have changed meanwhile.
                partition = self.partitions.require(tp)
                log = partition.leader_log()
                if info is None:
                    info = self._append_one(partition, log, data, checked, acks, origin)
            except KafkaError as error:
                self.refusals.note(tp, data, error.code)
                if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                    logger.info("%s: %s", tp, error.message)
                results[tp] = self._refused(tp, error)
                continue
            self._count(len(data), info.last_offset + 1 - info.first_offset)
            results[tp] = ProduceResult(
                ErrorCode.NONE, info.first_offset, info.append_time_ms, log.start_offset
            )
            if log.end_offset - log.recovery_point >= log.settings.flush_messages:
                await self._log_manager.flusher.flush(log)
            if acks != ALL_REPLICAS:
                continue
            if not partition.is_leader:
                # Lost during the flush, with everybody who waited then: nobody would end this wait.
                results[tp] = ProduceResult(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                continue
            outcome = _outcome(partition, log, info.last_offset + 1)
            if outcome is not None:
                results[tp] = _with_error(results[tp], outcome)
                continue
            if wait is None:
                wait = ProduceWait(self._timeouts, timeout_ms)
            partition.produce_waits.add(info.last_offset + 1, wait)
        if wait is not None:
            await wait.future
            for tp, code in wait.errors.items():
                results[tp] = _with_error(results[tp], code)
        return results

    def _append_plainly(
        self, tp: TopicPartition, data: memoryview, acks: int, origin: Origin
    ) -> AppendInfo | None:
        """As the direct lane does it; None: nothing was done, and the batch gets a second look.
        Raises KafkaError where the disk fails."""
        partition = self.partitions.get(tp)
        if partition is None or origin is not Origin.CLIENT or tp in self.refusals:
            return None
        if tp.topic in self.partitions.fenced_topics:
            return None
        log = partition.log
        try:
            bases = partition.append_plain((data,), acks)
        except OSError as error:
            raise self._lost_folder(partition, error) from None
        if not bases or log is None:
            return None
        return AppendInfo(bases[0], log.end_offset - 1, _NO_TIME)

    def _refused(self, tp: TopicPartition, error: KafkaError) -> ProduceResult:
        log = self.partitions.log(tp)
        rejected = error.record_errors if isinstance(error, RecordsRejected) else []
        start_offset = -1 if log is None else log.start_offset
        return ProduceResult(
            error.code,
            log_start_offset=-1 if error.code in _WITHOUT_LOG_START else start_offset,
            error_message=error.message,
            record_errors=tuple(rejected),
        )

    # --- the direct lane --------------------------------------------------------------------

    def append_plain(
        self, partition: Partition, log: Log, batches: Sequence[memoryview], acks: int
    ) -> tuple[list[int], int, int]:
        """The first of some batches that come from anybody (`is_open_to_all`) for one partition:
        their base offsets, the offset behind them, their append time. No base offsets: nothing was
        done, and the first batch is for the general lane."""
        if (
            partition.tp in self.refusals
            or log.settings.flush_messages < _NEVER
            or partition.tp.topic in self.partitions.fenced_topics
        ):
            return [], -1, _NO_TIME
        try:
            bases = partition.append_plain(batches, acks)
        except OSError as error:
            self._log_manager.dirs.failed(log.data_dir, error)
            return [], -1, _NO_TIME
        except KafkaError:
            # A log that is damaged: the general lane says so.
            return [], -1, _NO_TIME
        if bases:
            end_offset = log.end_offset
            self._count(sum(map(len, batches[: len(bases)])), end_offset - bases[0])
            self.direct_requests += len(bases)
            return bases, end_offset, _NO_TIME
        info = self._append_quickly(partition, log, batches[0], acks)
        if info is None:
            return bases, -1, _NO_TIME
        self._count(len(batches[0]), info.last_offset + 1 - info.first_offset)
        self.direct_requests += 1
        return [info.first_offset], info.last_offset + 1, info.append_time_ms

    def _append_quickly(
        self, partition: Partition, log: Log, data: memoryview, acks: int
    ) -> AppendInfo | None:
        """None where it takes long to look at, and where it is refused."""
        if not _is_one_batch(data) or log.settings.ottla_key_guard:
            return None
        try:
            checked = self._examiner.try_at_once(log.check_in_steps(data))
            if checked is None:
                return None
            return self._append_one(partition, log, data, checked, acks, Origin.CLIENT)
        except KafkaError:
            return None

    def when_replicated(
        self,
        partition: Partition,
        log: Log,
        required_offset: int,
        timeout_ms: int,
        on_end: Callable[[ErrorCode], None],
    ) -> None:
        """Calls `on_end`, perhaps at once, when the in-sync replicas have everything before an
        offset, or cannot."""
        outcome = _outcome(partition, log, required_offset)
        if outcome is not None:
            on_end(outcome)
        else:
            wait = SingleProduceWait(self._timeouts, timeout_ms, on_end)
            partition.produce_waits.add(required_offset, wait)

    # --- both -------------------------------------------------------------------------------

    def _count(self, size_bytes: int, records: int) -> None:
        self.taken_bytes += size_bytes
        self.taken_records += records

    async def _checked(
        self, tp: TopicPartition, data: memoryview, acks: int, origin: Origin, sender: Sender
    ) -> Checked:
        """The batches that may be appended; raises KafkaError."""
        partition = self.partitions.require(tp)
        log = partition.leader_log()
        partition.check_in_sync(acks)
        checked = await self._examiner.finish(log.check_in_steps(data, origin))
        if log.settings.ottla_key_guard and origin is Origin.CLIENT:
            await self._guard_keys(log, checked, sender)
        return checked

    async def _guard_keys(self, log: Log, checked: Checked, sender: Sender) -> None:
        """Raises KafkaError for a batch with a key of another partition."""
        guards = self._key_guards
        guard = guards.standing(log)
        if guard is not None:
            errors = await self._examiner.finish(guards.misplaced(log, guard, checked))
            if errors:
                raise guards.refuse(log, checked, errors, sender)

    def _append_one(
        self,
        partition: Partition,
        log: Log,
        data: memoryview,
        checked: Checked,
        acks: int,
        origin: Origin,
    ) -> AppendInfo:
        """What was made of `data`. Raises KafkaError; then nothing was appended."""
        if origin is Origin.CLIENT and partition.tp.topic in self.partitions.fenced_topics:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        earlier = self.refusals.of_an_earlier_batch(partition, data)
        if earlier is not None:
            raise KafkaError(earlier)
        try:
            return partition.append_as_leader(
                checked, acks=acks, origin=origin, now_ms=self._clock.monotonic_ms()
            )
        except OSError as error:
            raise self._lost_folder(partition, error) from None

    def _lost_folder(self, partition: Partition, error: OSError) -> KafkaError:
        if partition.log is not None:
            self._log_manager.dirs.failed(partition.log.data_dir, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))


def _outcome(partition: Partition, log: Log, required_offset: int) -> ErrorCode | None:
    """How an acks=all append ended; None while followers have to be waited for."""
    return partition.acks_error() if log.high_watermark >= required_offset else None


def _with_error(result: ProduceResult, error: ErrorCode) -> ProduceResult:
    return result if error is ErrorCode.NONE else ProduceResult(error)


def _is_one_batch(data: memoryview) -> bool:
    """Just one, and outside transactions."""
    return (
        len(data) >= HEADER_BYTES
        and size_at(data) == len(data)
        and data[MAGIC_AT] == MAGIC
        and not data[ATTRIBUTES_LOW_AT] & TRANSACTIONAL
    )
