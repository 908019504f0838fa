"""Collects what brokers must be told and builds the requests (ControllerBrokerRequestBatch).

LeaderAndIsr v5, UpdateMetadata v7 and StopReplica v3 are what inter.broker.protocol.version 2.8
sends. Partition states are taken from the context when the batch is built, so a partition that
changed twice within a batch is told once, as it is now. Stop epochs are those of the moment of
the call: the stop goes out before the epoch that the ISR change brings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.controller import request_words
from ottla.controller.context import ControllerContext
from ottla.controller.events import Answer
from ottla.controller.steps import ControlRequest, Send, Steps
from ottla.errors import ErrorCode
from ottla.metadata.znodes import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    LeaderAndIsr,
    ReplicaAssignment,
)
from ottla.types import ZERO_TOPIC_ID, TopicPartition
from ottla.wire import messages as m
from ottla.wire.encoder import SharedList

if TYPE_CHECKING:
    LeaderAndIsrState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState
    UpdateMetadataState = m.UpdateMetadataRequest.UpdateMetadataPartitionState
    # What a partition's state is made of, but for the topic.
    OrderKey = tuple[int, LeaderAndIsr, ReplicaAssignment, bool]
    MetadataKey = tuple[int, LeaderAndIsr, tuple[int, ...], tuple[int, ...], bool]

LEADER_AND_ISR_VERSION = 5
UPDATE_METADATA_VERSION = 7
STOP_REPLICA_VERSION = 3

_SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBatch:
    """What brokers are to be told at the end of a step, partition by partition; sent once."""

    def __init__(self, ctx: ControllerContext) -> None:
        self._ctx = ctx
        # Per broker: partition -> isNew.
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        # Per broker: partition -> (leader epoch, delete).
        self._stop: dict[int, dict[TopicPartition, tuple[int, bool]]] = {}
        self._metadata_partitions: dict[TopicPartition, None] = {}
        self._metadata_brokers: set[int] = set()
        # Tens of thousands of partitions have a few dozen different lists of brokers.
        self._lists: dict[tuple[int, ...], list[int]] = {}
        self._down: dict[tuple[int, ...], tuple[int, ...]] = {}
        # And hardly more different states: one object for all that differ by their topics alone.
        self._orders: dict[OrderKey, LeaderAndIsrState] = {}
        self._known: dict[MetadataKey, UpdateMetadataState] = {}

    def add_leader_and_isr(
        self, broker_ids: Iterable[int], tp: TopicPartition, *, is_new: bool
    ) -> None:
        """Also tells every broker the partition's metadata, as Kafka does."""
        for broker_id in broker_ids:
            if broker_id >= 0:
                partitions = self._leader_and_isr.setdefault(broker_id, {})
                partitions[tp] = is_new or partitions.get(tp, False)
        self._metadata_brokers.update(self._ctx.brokers)
        self._metadata_partitions[tp] = None

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()
    ) -> None:
        self._metadata_brokers.update(broker_ids)
        self._metadata_partitions.update(dict.fromkeys(partitions))

    def add_stop_replica(
        self, broker_id: int, tp: TopicPartition, *, delete: bool, next_epoch: bool = False
    ) -> None:
        """With `next_epoch` the stop counts for a broker that knows the current epoch already."""
        if broker_id not in self._ctx.brokers:
            # Nothing is sent to a broker that is gone.
            return
        if self._ctx.is_queued_for_deletion(tp.topic):
            leader_epoch = EPOCH_DURING_DELETE
        else:
            state = self._ctx.leadership.get(tp)
            leader_epoch = NO_EPOCH if state is None else state.leader_epoch + next_epoch
        partitions = self._stop.setdefault(broker_id, {})
        already_delete = partitions.get(tp, (0, False))[1]
        partitions[tp] = (leader_epoch, delete or already_delete)

    def send(self) -> Steps[None]:
        """Queues everything: LeaderAndIsr, UpdateMetadata, StopReplica; brokers in order of id."""
        requests = [
            *self._leader_and_isr_requests(),
            *self._update_metadata_requests(),
            *self._stop_replica_requests(),
        ]
        if requests:
            self._record(requests)
            yield Send(requests)

    def _record(self, requests: list[ControlRequest]) -> None:
        ctx = self._ctx
        for request in requests:
            for told in request_words.request_by_topic(request):
                ctx.journal.record(
                    "request",
                    topic=told.topic,
                    topic_id=None if told.topic is None else ctx.topic_ids.get(told.topic),
                    broker=request.broker_id,
                    to_state=request_words.name_of(request.message),
                    cause=told.words or None,
                )
        for level, line in request_words.log_lines(requests, traced=ctx.journal.is_tracing):
            ctx.journal.state_change(level, "%s", line)

    def _leader_and_isr_requests(self) -> list[ControlRequest]:
        ctx = self._ctx
        requests = []
        for broker_id in sorted(self._leader_and_isr.keys() & ctx.brokers.keys()):
            topics: dict[str, list[LeaderAndIsrState]] = {}
            leaders = set()
            for tp, is_new in self._leader_and_isr[broker_id].items():
                state = self._leader_and_isr_state(tp, is_new)
                if state is None:
                    continue
                leaders.add(state.leader)
                topics.setdefault(tp.topic, []).append(state)
            message = m.LeaderAndIsrRequest(
                controller_id=ctx.broker_id,
                controller_epoch=ctx.epoch,
                broker_epoch=ctx.broker_epochs[broker_id],
                topic_states=[
                    m.LeaderAndIsrRequest.LeaderAndIsrTopicState(
                        topic_name=topic,
                        topic_id=ctx.topic_ids.get(topic, ZERO_TOPIC_ID),
                        partition_states=states,
                    )
                    for topic, states in topics.items()
                ],
                live_leaders=self._live_leaders(leaders),
            )
            if topics:
                requests.append(ControlRequest(broker_id, message, LEADER_AND_ISR_VERSION))
        return requests

    def _leader_and_isr_state(self, tp: TopicPartition, is_new: bool) -> LeaderAndIsrState | None:
        state = self._ctx.leadership.get(tp)
        if state is None:
            return None
        assignment = self._ctx.assignment(tp)
        key = (tp.partition, state, assignment, is_new)
        order = self._orders.get(key)
        if order is None:
            order = self._orders[key] = self._order(tp.partition, state, assignment, is_new)
        return order

    def _order(
        self, partition: int, state: LeaderAndIsr, assignment: ReplicaAssignment, is_new: bool
    ) -> LeaderAndIsrState:
        return m.LeaderAndIsrRequest.LeaderAndIsrPartitionState(
            partition_index=partition,
            controller_epoch=state.controller_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=self._listed(state.isr),
            partition_epoch=state.zk_version,
            replicas=self._listed(assignment.replicas),
            adding_replicas=self._listed(assignment.adding),
            removing_replicas=self._listed(assignment.removing),
            is_new=is_new,
        )

    def _listed(self, brokers: tuple[int, ...]) -> list[int]:
        """As a list for a message, which nobody changes."""
        return self._lists.get(brokers) or self._lists.setdefault(brokers, list(brokers))

    def _live_leaders(
        self, leaders: set[int]
    ) -> list[m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader]:
        listener = self._ctx.config.inter_broker_listener
        found = []
        for broker_id in sorted(leaders & self._ctx.brokers.keys()):
            endpoint = self._ctx.brokers[broker_id].endpoint(listener)
            if endpoint is not None:
                found.append(
                    m.LeaderAndIsrRequest.LeaderAndIsrLiveLeader(
                        broker_id=broker_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return found

    def _update_metadata_requests(self) -> list[ControlRequest]:
        ctx = self._ctx
        recipients = sorted(self._metadata_brokers & ctx.brokers.keys())
        if not recipients:
            return []
        topics: dict[str, list[UpdateMetadataState]] = {}
        for tp in self._metadata_partitions:
            state = self._update_metadata_state(tp)
            if state is not None:
                topics.setdefault(tp.topic, []).append(state)
        # The same for all of them, but for their epochs.
        topic_states = SharedList(
            m.UpdateMetadataRequest.UpdateMetadataTopicState(
                topic_name=topic,
                topic_id=ctx.topic_ids.get(topic, ZERO_TOPIC_ID),
                partition_states=states,
            )
            for topic, states in topics.items()
        )
        live_brokers = self._live_brokers()
        return [
            ControlRequest(
                broker_id,
                m.UpdateMetadataRequest(
                    controller_id=ctx.broker_id,
                    controller_epoch=ctx.epoch,
                    broker_epoch=ctx.broker_epochs[broker_id],
                    topic_states=topic_states,
                    live_brokers=live_brokers,
                ),
                UPDATE_METADATA_VERSION,
            )
            for broker_id in recipients
        ]

    def _update_metadata_state(self, tp: TopicPartition) -> UpdateMetadataState | None:
        ctx = self._ctx
        state = ctx.leadership.get(tp)
        if state is None:
            return None
        replicas = ctx.assignment(tp).replicas
        deleting = ctx.is_queued_for_deletion(tp.topic)
        offline = self._offline(replicas, tp)
        key = (tp.partition, state, replicas, offline, deleting)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = m.UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=tp.partition,
                controller_epoch=state.controller_epoch,
                leader=LEADER_DURING_DELETE if deleting else state.leader,
                leader_epoch=0 if deleting else state.leader_epoch,
                isr=self._listed(state.isr),
                zk_version=0 if deleting else state.zk_version,
                replicas=self._listed(replicas),
                offline_replicas=self._listed(offline),
            )
        return known

    def _offline(self, replicas: tuple[int, ...], tp: TopicPartition) -> tuple[int, ...]:
        """Where no folder has failed this is a matter of brokers alone."""
        ctx = self._ctx
        found = None if ctx.offline_dir_partitions else self._down.get(replicas)
        if found is None:
            found = tuple(replica for replica in replicas if not ctx.is_online(replica, tp))
            self._down[replicas] = found
        return found

    def _live_brokers(self) -> list[m.UpdateMetadataRequest.UpdateMetadataBroker]:
        return [
            m.UpdateMetadataRequest.UpdateMetadataBroker(
                id=broker_id,
                endpoints=[
                    m.UpdateMetadataRequest.UpdateMetadataEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=_SECURITY_PROTOCOL_IDS.get(endpoint.security_protocol, 0),
                    )
                    for endpoint in info.endpoints
                ],
                rack=info.rack,
            )
            for broker_id, info in sorted(self._ctx.brokers.items())
        ]

    def _stop_replica_requests(self) -> list[ControlRequest]:
        ctx = self._ctx
        requests = []
        for broker_id in sorted(self._stop.keys() & ctx.brokers.keys()):
            topics: dict[str, list[m.StopReplicaRequest.StopReplicaPartitionState]] = {}
            for tp, (leader_epoch, delete) in self._stop[broker_id].items():
                topics.setdefault(tp.topic, []).append(
                    m.StopReplicaRequest.StopReplicaPartitionState(
                        partition_index=tp.partition,
                        leader_epoch=leader_epoch,
                        delete_partition=delete,
                    )
                )
            message = m.StopReplicaRequest(
                controller_id=ctx.broker_id,
                controller_epoch=ctx.epoch,
                broker_epoch=ctx.broker_epochs[broker_id],
                topic_states=[
                    m.StopReplicaRequest.StopReplicaTopicState(
                        topic_name=topic, partition_states=states
                    )
                    for topic, states in topics.items()
                ],
            )
            requests.append(ControlRequest(broker_id, message, STOP_REPLICA_VERSION))
        return requests


def record_answer(ctx: ControllerContext, event: Answer) -> None:
    """An event for each topic of the request; an error of the whole goes to the log as well."""
    api = request_words.name_of(event.request)
    for told in request_words.answer_by_topic(event.request, event.response):
        ctx.journal.record(
            "answer",
            topic=told.topic,
            topic_id=None if told.topic is None else ctx.topic_ids.get(told.topic),
            broker=event.broker_id,
            to_state=api,
            cause=told.words or None,
            error=told.error,
        )
    if event.response.error_code != ErrorCode.NONE:
        ctx.journal.state_change(
            logging.ERROR,
            "Received error %s in %s response from broker %d",
            request_words.error_name(event.response.error_code),
            api,
            event.broker_id,
        )


def send_update_metadata(
    ctx: ControllerContext,
    broker_ids: Iterable[int],
    partitions: Iterable[TopicPartition] = (),
) -> Steps[None]:
    batch = RequestBatch(ctx)
    batch.add_update_metadata(broker_ids, partitions)
    yield from batch.send()
