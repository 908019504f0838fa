"""Reading for fetches: one pass over the partitions of a request (ReplicaManager.readFromLocalLog,
Partition.readRecords)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.fetching.params import FetchParams
from ottla.broker.replication.fetch_protocol import FetchPartition, FetchResult
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.segment.segment import EMPTY
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire.primitives import MIN_UNCOPIED_BYTES
from ottla.wire.records import HEADER_BYTES

if TYPE_CHECKING:
    from ottla.broker.fetching.preferred_replica import ReplicaSelector
    from ottla.broker.quotas.throttles import ReplicationThrottles
    from ottla.broker.replication.hosted import HostedPartitions

Wanted = tuple[TopicPartition, FetchPartition]
# The beginning of a batch that is never sent whole. Fetch v0 to v2 get no more than they ask for; a
# client that finds nothing else asks for more the next time.
CUT_BATCH = memoryview(struct.pack(">qi", -1, HEADER_BYTES))
# Records of one partition from this size on stay in their file until the socket takes them.
SLICED_FROM_BYTES = 64 * 1024
# What one answer holds of smaller ones; the others stay in their files as well.
_READ_AT_ONCE_BYTES = 256 * 1024


class Reader:
    """Reads for whoever asks: within its bounds, its share of the rate (KIP-73) and its rack."""

    def __init__(
        self,
        partitions: HostedPartitions,
        throttles: ReplicationThrottles,
        selector: ReplicaSelector,
    ) -> None:
        self._partitions = partitions
        self._throttles = throttles
        self._selector = selector

    def read_all(
        self, params: FetchParams, wanted: Sequence[Wanted]
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """In the request's order; the first partition with data gives at least one whole batch."""
        left, at_once = params.max_bytes, _READ_AT_ONCE_BYTES
        min_one_batch = not params.hard_max_bytes
        results: list[tuple[TopicPartition, FetchResult]] = []
        for tp, want in wanted:
            try:
                partition = self._partitions.require(tp)
                result = self._read_one(
                    params,
                    partition,
                    want,
                    max(0, left),
                    min_one_batch,
                    SLICED_FROM_BYTES if at_once > 0 else MIN_UNCOPIED_BYTES,
                )
            except KafkaError as error:
                result = FetchResult(error.code)
            size = result.size
            if size:
                left -= size
                if size < SLICED_FROM_BYTES:
                    at_once -= size
                min_one_batch = False
            results.append((tp, result))
        return results

    def is_behind(
        self,
        params: FetchParams,
        wanted: Sequence[Wanted],
        results: Sequence[tuple[TopicPartition, FetchResult]],
    ) -> bool:
        """Whether someone reads another segment than the one in which all ends that it may see: a
        read gives no more than one segment, so that waiting brings nothing (DelayedFetch)."""
        for (tp, want), (_, result) in zip(wanted, results, strict=True):
            partition = self._partitions.get(tp)
            log = None if partition is None else partition.log
            if (
                partition is not None
                and log is not None
                and not log.segments.is_one(want.fetch_offset, _visible_end(params, log))
                # At the end, or held back: a throttle, or no replica here.
                and result is not partition.result_without_records(log)
            ):
                return True
        return False

    def read_again(
        self,
        params: FetchParams,
        wanted: Sequence[Wanted],
        before: list[tuple[TopicPartition, FetchResult]],
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """After a wait: only what moved meanwhile is read, the rest stays as it was."""
        moved: list[int] = []
        again: list[Wanted] = []
        results = list(before)
        for number, (tp, result) in enumerate(before):
            try:
                if is_at_end(params, self._partitions.require(tp), wanted[number][1], result):
                    continue
            except KafkaError:
                pass  # read_all answers it
            moved.append(number)
            again.append(wanted[number])
        for number, fresh in zip(moved, self.read_all(params, again), strict=True):
            results[number] = fresh
        return results

    def _read_one(
        self,
        params: FetchParams,
        partition: Partition,
        want: FetchPartition,
        left: int,
        min_one_batch: bool,
        sliced_from: int,
    ) -> FetchResult:
        is_follower = params.replica_id >= 0
        if partition.tp.topic in self._partitions.closed_topics and not is_follower:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
            preferred = self._selector.choose(params, partition, want.fetch_offset)
            if preferred >= 0:
                bounds = partition.result_without_records(log)
                return bounds._replace(preferred_read_replica=preferred)
        visible_end = _visible_end(params, log)
        if want.fetch_offset == visible_end or (
            # A broker that is not a replica here: it learns the bounds but gets no records.
            is_follower
            and (
                params.replica_id not in partition.remotes
                or self._throttles.holds_back(log, params.replica_id, partition.in_sync.members)
            )
        ):
            return partition.result_without_records(log)
        data = log.read_or_slice(
            want.fetch_offset,
            min(want.max_bytes, left),
            visible_end,
            min_one_batch=min_one_batch,
            sliced_from=sliced_from,
        )
        if params.hard_max_bytes and not len(data) and min(want.max_bytes, left) > 0:
            data = CUT_BATCH
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
