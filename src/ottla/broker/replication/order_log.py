"""The broker's side of the state-change log: what became of the controller's orders, in Kafka's
words (ReplicaManager, Partition, MetadataCache). Kafka's TRACE lines, which repeat each order
before and after, are left out: the controller's own log has them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.state_changes import TRACE, StateChangeLines
from ottla.types import TopicPartition, format_topic_id

if TYPE_CHECKING:
    from ottla.broker.replication.partition import Partition
    from ottla.errors import ErrorCode
    from ottla.storage.log.log import Log
    from ottla.types import TopicId
    from ottla.wire import messages as m

    PartitionState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState


_SHOWN_PARTITIONS = 10


class Sender(NamedTuple):
    """The controller that an order comes from, and the number of its request."""

    controller_id: int
    controller_epoch: int
    correlation_id: int

    def __str__(self) -> str:
        return (
            f"controller {self.controller_id} with correlation id {self.correlation_id} epoch"
            f" {self.controller_epoch}"
        )


class OrderLog:
    """Lines wait for `flush`, so that a request about thousands of partitions writes once."""

    def __init__(self, broker_id: int) -> None:
        self._prefix = f"[Broker id={broker_id}] "
        self._lines = StateChangeLines()

    def add(self, level: int, line: str) -> None:
        if self._lines.is_enabled(level):
            self._lines.add(level, self._prefix + line)

    def flush(self) -> None:
        self._lines.flush()

    # --- requests ---------------------------------------------------------------------------

    def handling(self, api: str, sender: Sender, partitions: int) -> None:
        self.add(
            logging.INFO,
            f"Handling {api} request correlationId {sender.correlation_id} from controller"
            f" {sender.controller_id} for {partitions} partitions",
        )
        self.flush()

    def finished(self, api: str, sender: Sender, partitions: int, elapsed_ms: float) -> None:
        self.add(
            logging.INFO,
            f"Finished {api} request in {elapsed_ms:.0f}ms correlationId {sender.correlation_id}"
            f" from controller {sender.controller_id} for {partitions} partitions",
        )
        self.flush()

    def old_controller(self, api: str, sender: Sender, latest_epoch: int) -> None:
        self.add(
            logging.WARNING,
            f"Ignoring {api} request from controller {sender.controller_id} with correlation id"
            f" {sender.correlation_id} since its controller epoch {sender.controller_epoch} is"
            f" old. Latest known controller epoch is {latest_epoch}",
        )

    def metadata_from_old_controller(self, sender: Sender, latest_epoch: int) -> None:
        self.add(
            logging.WARNING,
            f"Received update metadata request with correlation id {sender.correlation_id} from an"
            f" old controller {sender.controller_id} with epoch {sender.controller_epoch}. Latest"
            f" known controller epoch is {latest_epoch}",
        )

    def metadata(self, sender: Sender, cached: int, deleted: int) -> None:
        self.add(
            logging.INFO,
            f"Add {cached} partitions and deleted {deleted} partitions from metadata cache in"
            f" response to UpdateMetadata request sent by controller {sender.controller_id} epoch"
            f" {sender.controller_epoch} with correlation id {sender.correlation_id}",
        )
        self.flush()

    # --- orders that are not carried out ----------------------------------------------------

    def offline(self, request: str, sender: Sender, tp: TopicPartition) -> None:
        """`request` is LeaderAndIsr request, or StopReplica request (delete=…)."""
        self.add(
            logging.WARNING,
            f"Ignoring {request} from {sender} for partition {tp} as the local replica for the"
            " partition is in an offline log directory",
        )

    def fenced(
        self, request: str, sender: Sender, tp: TopicPartition, asked: int, current: int
    ) -> None:
        """The leader epoch that was asked for is not above the current one."""
        start = (
            f"Ignoring {request} from {sender} for partition {tp} since its associated leader"
            f" epoch {asked}"
        )
        if asked < current:
            line = f"{start} is smaller than the current leader epoch {current}"
            self.add(logging.WARNING, line)
        else:
            self.add(logging.INFO, f"{start} matches the current leader epoch")

    def not_assigned(self, sender: Sender, tp: TopicPartition, replicas: Collection[int]) -> None:
        self.add(
            logging.WARNING,
            f"Ignoring LeaderAndIsr request from {sender} for partition {tp} as itself is not in"
            f" assigned replica list {','.join(map(str, replicas))}",
        )

    def impossible(self, sender: Sender, refused: Mapping[TopicPartition, ErrorCode]) -> None:
        """One line, however many there are."""
        if refused:
            shown = ", ".join(
                f"{tp} ({code.name})" for tp, code in islice(refused.items(), _SHOWN_PARTITIONS)
            )
            self.add(
                logging.ERROR,
                f"Ignoring LeaderAndIsr request from {sender} for {len(refused)} partitions that"
                f" there cannot be: {shown}",
            )

    def other_topic_id(self, tp: TopicPartition, known: TopicId, asked: TopicId) -> None:
        self.add(
            logging.ERROR,
            f"Topic Id in memory: {format_topic_id(known)} does not match the topic Id for"
            f" partition {tp} provided in the request: {format_topic_id(asked)}.",
        )

    def disk_error(
        self, sender: Sender, tp: TopicPartition, state: PartitionState, role: str, error: Exception
    ) -> None:
        leader = f" with leader {state.leader}" if role == "follower" else ""
        self.add(
            logging.ERROR,
            f"Skipped the become-{role} state change with correlation id {sender.correlation_id}"
            f" from controller {sender.controller_id} epoch {sender.controller_epoch} for partition"
            f" {tp} (last update controller epoch {state.controller_epoch}){leader} since the"
            f" replica for the partition is offline due to disk error {error}",
        )

    def leader_unknown(self, sender: Sender, tp: TopicPartition, state: PartitionState) -> None:
        self.add(
            logging.ERROR,
            f"Received LeaderAndIsrRequest with correlation id {sender.correlation_id} from"
            f" controller {sender.controller_id} epoch {sender.controller_epoch} for partition {tp}"
            f" (last update controller epoch {state.controller_epoch}) but cannot become follower"
            f" since the new leader {state.leader} is unavailable.",
        )

    # --- orders that are --------------------------------------------------------------------

    def stopped_fetchers_to_lead(self, sender: Sender, partitions: int) -> None:
        self.add(
            logging.INFO,
            f"Stopped fetchers as part of LeaderAndIsr request correlationId"
            f" {sender.correlation_id} from controller {sender.controller_id} epoch"
            f" {sender.controller_epoch} as part of the become-leader transition for {partitions}"
            " partitions",
        )

    def leads(
        self, partition: Partition, log: Log, state: PartitionState, previous_epoch: int
    ) -> None:
        self.add(
            logging.INFO,
            f"Leader {partition.tp} starts at leader epoch {partition.leader_epoch} from offset"
            f" {partition.epoch_start_offset} with high watermark {log.high_watermark} ISR"
            f" {_list(partition.in_sync.members)} addingReplicas {_list(state.adding_replicas)}"
            f" removingReplicas {_list(state.removing_replicas)}. Previous leader epoch was"
            f" {previous_epoch}.",
        )

    def led_already(self, sender: Sender, tp: TopicPartition, state: PartitionState) -> None:
        self.add(
            logging.INFO,
            "Skipped the become-leader state change after marking its partition as leader with"
            f" correlation id {sender.correlation_id} from controller {sender.controller_id} epoch"
            f" {sender.controller_epoch} for partition {tp} (last update controller epoch"
            f" {state.controller_epoch}) since it is already the leader for the partition.",
        )

    def followed_already(self, sender: Sender, tp: TopicPartition, state: PartitionState) -> None:
        self.add(
            logging.INFO,
            "Skipped the become-follower state change after marking its partition as follower with"
            f" correlation id {sender.correlation_id} from controller {sender.controller_id} epoch"
            f" {sender.controller_epoch} for partition {tp} (last update controller epoch"
            f" {state.controller_epoch}) since the new leader {state.leader} is the same as the old"
            " leader",
        )

    def follows(self, partition: Partition, log: Log, previous_epoch: int) -> None:
        self.add(
            logging.INFO,
            f"Follower {partition.tp} starts at leader epoch {partition.leader_epoch} from offset"
            f" {log.end_offset} with high watermark {log.high_watermark}. Previous leader epoch was"
            f" {previous_epoch}.",
        )

    def stopped_fetchers_to_follow(self, sender: Sender, partitions: int) -> None:
        self.add(
            logging.INFO,
            f"Stopped fetchers as part of become-follower request from controller"
            f" {sender.controller_id} epoch {sender.controller_epoch} with correlation id"
            f" {sender.correlation_id} for {partitions} partitions",
        )

    def stop(self, sender: Sender, tp: TopicPartition, leader_epoch: int, *, delete: bool) -> None:
        self.add(
            TRACE,
            f"Received StopReplica request StopReplicaPartitionState(partitionIndex={tp.partition},"
            f" leaderEpoch={leader_epoch}, deletePartition={str(delete).lower()}) correlation id"
            f" {sender.correlation_id} from controller {sender.controller_id} epoch"
            f" {sender.controller_epoch} for partition {tp}",
        )


def _list(numbers: Collection[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
