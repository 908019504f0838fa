"""Reading for fetches: one pass over the partitions of a request (ReplicaManager.readFromLocalLog,
Partition.readRecords)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.replication.partition import Partition
from ottla.broker.replication.types import FetchParams, FetchPartition, FetchResult
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.segment.segment import EMPTY
from ottla.types import ZERO_TOPIC_ID, TopicPartition

Wanted = tuple[TopicPartition, FetchPartition]


class Reader(Protocol):
    """What reading asks the replica manager."""

    def partition(self, tp: TopicPartition) -> Partition: ...

    def is_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower has to wait for its share (KIP-73)."""

    def preferred_replica(
        self, params: FetchParams, partition: Partition, fetch_offset: int
    ) -> int:
        """The follower that a consumer had better read from (KIP-392); -1 for this broker."""


def read_all(
    params: FetchParams, wanted: Sequence[Wanted], reader: Reader
) -> list[tuple[TopicPartition, FetchResult]]:
    """In the request's order; the first partition with data gives at least one whole batch."""
    left = params.max_bytes
    min_one_batch = not params.hard_max_bytes
    results: list[tuple[TopicPartition, FetchResult]] = []
    for tp, want in wanted:
        try:
            partition = reader.partition(tp)
            result = read_one(params, partition, want, max(0, left), min_one_batch, reader)
        except KafkaError as error:
            result = FetchResult(error.code)
        size = result.size
        if size:
            left -= size
            min_one_batch = False
        results.append((tp, result))
    return results


def read_one(
    params: FetchParams,
    partition: Partition,
    want: FetchPartition,
    left: int,
    min_one_batch: bool,
    reader: Reader,
) -> FetchResult:
    is_follower = params.replica_id >= 0
    log = partition.local_log(
        want.current_leader_epoch, require_leader=is_follower or not params.any_replica
    )
    if want.topic_id != ZERO_TOPIC_ID and log.topic_id not in (ZERO_TOPIC_ID, want.topic_id):
        raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
    if want.last_fetched_epoch >= 0:
        diverging = diverging_epoch(log, want)
        if diverging is not None:
            return FetchResult(
                ErrorCode.NONE,
                log.high_watermark,
                log.last_stable_offset,
                log.start_offset,
                EMPTY,
                diverging,
            )
    if params.client_rack and not is_follower:
        preferred = reader.preferred_replica(params, partition, want.fetch_offset)
        if preferred >= 0:
            bounds = partition.result_without_records(log)
            return bounds._replace(preferred_read_replica=preferred)
    visible_end = _visible_end(params, log)
    if want.fetch_offset == visible_end or (
        # A broker that is no replica here: it learns the bounds but gets no records.
        is_follower
        and (
            params.replica_id not in partition.remotes
            or reader.is_throttled(partition, params.replica_id)
        )
    ):
        return partition.result_without_records(log)
    data = log.read(
        want.fetch_offset, min(want.max_bytes, left), visible_end, min_one_batch=min_one_batch
    )
    return FetchResult(
        ErrorCode.NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.start_offset,
        data,
        aborted=tuple(log.aborted_in(want.fetch_offset, len(data)))
        if len(data) and params.reads_committed
        else (),
    )


def _visible_end(params: FetchParams, log: Log) -> int:
    if params.replica_id >= 0:
        return log.end_offset
    return log.last_stable_offset if params.reads_committed else log.high_watermark


def is_answer(params: FetchParams, results: Sequence[tuple[TopicPartition, FetchResult]]) -> bool:
    """Whether the results are sent at once, without waiting for more."""
    size = 0
    for _, (error, _, _, _, records, diverging_epoch, preferred, _) in results:
        if error is not ErrorCode.NONE or diverging_epoch is not None or preferred >= 0:
            return True
        if records is not None:
            size += len(records)
    return size >= params.min_bytes


def is_at_end(
    params: FetchParams, partition: Partition, want: FetchPartition, result: FetchResult
) -> bool:
    """Whether the result stays what it is until the partition moves."""
    log = partition.log
    return (
        log is not None
        and result is partition.result_without_records(log)
        and _visible_end(params, log) == want.fetch_offset
        and partition.epoch_fits(want.current_leader_epoch)
    )


def read_again(
    params: FetchParams,
    wanted: Sequence[Wanted],
    before: list[tuple[TopicPartition, FetchResult]],
    reader: Reader,
) -> list[tuple[TopicPartition, FetchResult]]:
    """After a wait: only what moved meanwhile is read, the rest stays as it was."""
    moved: list[int] = []
    again: list[Wanted] = []
    results = list(before)
    for number, (tp, result) in enumerate(before):
        try:
            if is_at_end(params, reader.partition(tp), wanted[number][1], result):
                continue
        except KafkaError:
            pass  # read_all answers it
        moved.append(number)
        again.append(wanted[number])
    for number, fresh in zip(moved, read_all(params, again, reader), strict=True):
        results[number] = fresh
    return results


def diverging_epoch(log: Log, want: FetchPartition) -> tuple[int, int] | None:
    """Where the fetcher's log leaves this one; None if it agrees up to its fetch offset."""
    epoch, end_offset = log.epochs.end_offset_for(want.last_fetched_epoch, log.end_offset)
    if epoch < 0 or end_offset < 0:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"No end offset is known for epoch {want.last_fetched_epoch} of {log.tp}",
        )
    if want.fetch_offset < log.start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if epoch < want.last_fetched_epoch or end_offset < want.fetch_offset:
        return epoch, end_offset
    return None
