"""What the controller orders, carried out on this broker's partitions: lead, follow, stop
(ReplicaManager.becomeLeaderOrFollower, stopReplicas)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.notes.topic_notes import FOLLOWER, LEADER, TopicNotes
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.broker.replication.order_log import OrderLog, Sender
from ottla.broker.replication.partition import Partition
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.log.log import Log
from ottla.storage.manager import folder_names
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.wire import messages as m

    PartitionState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState

logger = logging.getLogger(__name__)

# Leader epochs of a StopReplica that is carried out whatever the partition's own epoch is.
NO_EPOCH = -1
_EPOCH_DURING_DELETE = -2
# Leader epochs grow by one with every election; beyond so many the store is asked.
_LIKELY_ELECTIONS = 1_000

Errors = dict[TopicPartition, ErrorCode]


class Order(NamedTuple):
    """What a LeaderAndIsr wants of one partition."""

    tp: TopicPartition
    topic_id: TopicId
    state: PartitionState


class Stop(NamedTuple):
    """What a StopReplica wants of one partition."""

    tp: TopicPartition
    leader_epoch: int
    delete: bool


class ControllerOrders:
    """`epochs` says whether an order is still good; handlers ask it first, also for UpdateMetadata.
    What is done here is done at once: nobody sees an order half carried out."""

    def __init__(
        self, replicas: ReplicaManager, epochs: OrderEpochs, notes: TopicNotes | None = None
    ) -> None:
        self.epochs = epochs
        self._notes = notes
        self.log = OrderLog(replicas.broker_id)
        self._replicas = replicas
        self._partitions = replicas.partitions
        self._logs = replicas.log_manager
        self._fetchers = replicas.fetchers
        self._leadership = replicas.leadership
        self._broker_id = replicas.broker_id
        self._clock = replicas.runtime.clock
        self._metadata_cache = replicas.metadata_cache
        self._listener = replicas.config.inter_broker_listener

    # --- lead and follow --------------------------------------------------------------------

    def impossible(self, tp: TopicPartition) -> KafkaError | None:
        """Why there can be no such partition; what is here already needs no second look."""
        return None if self._partitions.get(tp) is not None else folder_names.objection(tp)

    def is_far_ahead(self, order: Order) -> bool:
        """Whether its leader epoch is higher than elections since the last order can explain. Taken
        over, it would make all later orders for the partition look old."""
        partition, log = self._partitions.get(order.tp), self._logs.get(order.tp)
        known = max(
            -1 if partition is None else partition.leader_epoch,
            -1 if log is None else log.epochs.latest,
        )
        return order.state.leader_epoch - known > _LIKELY_ELECTIONS

    async def take_over_renamed(self, orders: Iterable[Order]) -> None:
        """Logs that are here under the former name of their topic get the new one (ADR 51). Their
        replicas stop being hosted under the old one, and nobody writes to them until the order is
        carried out. A copy on its way to another folder of this broker is given up."""
        found = self._logs.renamed.find(
            {
                order.tp: order.topic_id
                for order in orders
                if self._broker_id in order.state.replicas
                and not self._partitions.is_offline(order.tp)
            }
        )
        if not found:
            return
        former = {tp: log.tp for tp, log in found.items()}
        for tp, log in found.items():
            self._replicas.stop_hosting(log.tp)
            self._logs.delete_future(log.tp)
            nameless = self._logs.get(tp)
            if nameless is not None and nameless.end_offset:
                await self._replicas.set_aside(tp)
            elif nameless is not None:
                self._replicas.delete(tp)
        # A newer order may have renamed one again while another log was set aside.
        still = {tp: log for tp, log in found.items() if log.tp == former[tp]}
        await self._logs.renamed.rename(still)

    async def make_logs_ahead(self, orders: Iterable[Order]) -> None:
        """The slow part of a large request, before its orders are carried out in one go."""
        await self._logs.create_ahead(
            {
                order.tp: order.topic_id
                for order in orders
                if self._broker_id in order.state.replicas
                and not self._partitions.is_offline(order.tp)
                and self._partitions.get(order.tp) is None
            }
        )

    def carry_out(self, orders: Iterable[Order], sender: Sender) -> Errors:
        """At most one for each partition."""
        errors: Errors = {}
        to_lead: list[Order] = []
        to_follow: list[Order] = []
        for order in orders:
            error = self._objection(order, sender)
            errors[order.tp] = error
            if error is ErrorCode.NONE:
                (to_lead if order.state.leader == self._broker_id else to_follow).append(order)
        self._make_leaders(to_lead, sender, errors)
        self._make_followers(to_follow, sender, errors)
        self.log.flush()
        self._replicas.moves.resume()
        return errors

    def _objection(self, order: Order, sender: Sender) -> ErrorCode:
        """Why an order is refused; NONE if it is to be carried out."""
        tp, state = order.tp, order.state
        impossible = self.impossible(tp)
        if impossible is not None:
            self.log.impossible(sender, {tp: impossible.code})
            return impossible.code
        if self._partitions.is_offline(tp):
            self.log.offline("LeaderAndIsr request", sender, tp)
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(tp)
        log = self._partitions.log(tp) or self._logs.get(tp)
        if log is not None and not _topic_id_fits(log, order.topic_id):
            self.log.other_topic_id(tp, log.topic_id, order.topic_id)
            return ErrorCode.INCONSISTENT_TOPIC_ID
        if log is not None:
            log.is_stray = False
        if partition is not None and state.leader_epoch <= partition.leader_epoch:
            if log is not None and log.topic_id == ZERO_TOPIC_ID != order.topic_id:
                try:
                    self._logs.ids.assign(log, order.topic_id)
                except KafkaError as error:
                    return error.code
            asked, current = state.leader_epoch, partition.leader_epoch
            self.log.fenced("LeaderAndIsr request", sender, tp, asked, current)
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._broker_id not in state.replicas:
            self.log.not_assigned(sender, tp, state.replicas)
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    def _enter(self, order: Order, sender: Sender, errors: Errors) -> tuple[Partition, Log] | None:
        """The partition and its log; where there is no disk for it, the partition is offline."""
        partition = self._partitions.enter(order.tp)
        try:
            return partition, self._log_for(partition, order)
        except (KafkaError, OSError) as error:
            if isinstance(error, KafkaError) and error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                # The file system does not take its name; there is no disk to blame.
                self._replicas.stop_hosting(order.tp)
                self.log.impossible(sender, {order.tp: error.code})
                errors[order.tp] = error.code
                return None
            role = "leader" if order.state.leader == self._broker_id else "follower"
            self.log.disk_error(sender, order.tp, order.state, role, error)
            self._replicas.set_offline(order.tp)
            errors[order.tp] = ErrorCode.KAFKA_STORAGE_ERROR
            return None

    def _log_for(self, partition: Partition, order: Order) -> Log:
        log = partition.log
        if log is None:
            log = self._logs.get_or_create(
                order.tp, is_new=order.state.is_new, topic_id=order.topic_id
            )
            if log.topic_id == ZERO_TOPIC_ID != order.topic_id:
                self._distrust(log, order.state.leader)
        if log.topic_id == ZERO_TOPIC_ID != order.topic_id:
            self._logs.ids.assign(log, order.topic_id)
        return log

    def _distrust(self, log: Log, leader: int) -> None:
        """A log that was never synced may have lost its id in a power cut, and have records of an
        earlier topic of that name. Whoever follows gets everything from the leader."""
        if leader >= 0 and leader != self._broker_id and log.end_offset and not log.recovery_point:
            logger.warning("%s: nobody knows of which topic its records are, they go", log.tp)
            self._logs.removals.add_files(log, log.truncate_fully_and_start_at(0))

    def _make_leaders(self, orders: list[Order], sender: Sender, errors: Errors) -> None:
        self._fetchers.remove([order.tp for order in orders])
        if orders:
            self.log.stopped_fetchers_to_lead(sender, len(orders))
        now_ms = self._clock.monotonic_ms()
        for order in orders:
            entered = self._enter(order, sender, errors)
            if entered is None:
                continue
            partition, log = entered
            previous_epoch = partition.leader_epoch
            is_new_leader = partition.become_leader(order.state, log, now_ms)
            self.log.leads(partition, log, order.state, previous_epoch)
            if not is_new_leader:
                self.log.led_already(sender, order.tp, order.state)
            if self._notes is not None:
                self._notes.role(LEADER, order.tp)
            self._leadership.began(order.tp, partition.leader_epoch)

    def _make_followers(self, orders: list[Order], sender: Sender, errors: Errors) -> None:
        following: list[Partition] = []
        new_followers = 0
        for order in orders:
            entered = self._enter(order, sender, errors)
            if entered is None:
                continue
            partition, log = entered
            partition.log = log
            leader = order.state.leader
            if leader < 0 or self._metadata_cache.endpoint(leader, self._listener) is None:
                # The log is there for when a leader shows up; the order itself is not taken.
                self.log.leader_unknown(sender, order.tp, order.state)
                continue
            was_leader, previous_epoch = partition.is_leader, partition.leader_epoch
            follows_already = partition.leader == leader
            self._fetchers.remove([order.tp])
            partition.become_follower(order.state, log)
            self.log.follows(partition, log, previous_epoch)
            if follows_already:
                self.log.followed_already(sender, order.tp, order.state)
            else:
                new_followers += 1
            if self._notes is not None:
                self._notes.role(FOLLOWER, order.tp)
            following.append(partition)
            if was_leader:
                self._leadership.ended(order.tp, partition.leader_epoch)
        if orders:
            self.log.stopped_fetchers_to_follow(sender, new_followers)
        self._fetchers.add(following)

    # --- stop -------------------------------------------------------------------------------

    def stop(self, stop: Stop, sender: Sender) -> ErrorCode:
        """Whoever has stopped all of a request flushes `log`."""
        tp = stop.tp
        self.log.stop(sender, tp, stop.leader_epoch, delete=stop.delete)
        request = f"StopReplica request (delete={str(stop.delete).lower()})"
        if self._partitions.is_offline(tp):
            self.log.offline(request, sender, tp)
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._partitions.get(tp)
        if partition is None:
            # A log can be left over from a broker that was down when the topic was deleted.
            if stop.delete:
                self._logs.delete(tp)
            return ErrorCode.NONE
        always = stop.leader_epoch in (NO_EPOCH, _EPOCH_DURING_DELETE)
        if not always and stop.leader_epoch <= partition.leader_epoch:
            self.log.fenced(request, sender, tp, stop.leader_epoch, partition.leader_epoch)
            return ErrorCode.FENCED_LEADER_EPOCH
        if stop.delete:
            self._replicas.delete(tp, stop.leader_epoch if stop.leader_epoch >= 0 else None)
        else:
            self._fetchers.remove([tp])
            partition.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ErrorCode.NONE


def _topic_id_fits(log: Log, topic_id: TopicId) -> bool:
    return ZERO_TOPIC_ID in (log.topic_id, topic_id) or log.topic_id == topic_id
