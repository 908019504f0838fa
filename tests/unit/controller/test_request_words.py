"""Requests to brokers in words: bounded, whatever their size."""

from __future__ import annotations

import logging
from typing import Any

from ottla.controller.request_words import (
    MAX_PARTITIONS_TRACED,
    MAX_TOPICS_TOLD,
    answer_by_topic,
    log_lines,
    request_by_topic,
)
from ottla.controller.steps import ControlRequest
from ottla.state_changes import TRACE
from ottla.wire import messages as m


def leader_and_isr(broker_id: int, topics: dict[str, int]) -> ControlRequest:
    request = m.LeaderAndIsrRequest
    states = [
        request.LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=name.encode().ljust(16)[:16],
            partition_states=[
                request.LeaderAndIsrPartitionState(
                    partition_index=index,
                    controller_epoch=1,
                    leader=index % 2,
                    leader_epoch=3,
                    isr=[0, 1],
                    partition_epoch=5,
                    replicas=[0, 1],
                    is_new=True,
                )
                for index in range(count)
            ],
        )
        for name, count in topics.items()
    ]
    return ControlRequest(broker_id, request(topic_states=states), 5)


def stop_replica(broker_id: int, topic: str) -> ControlRequest:
    request = m.StopReplicaRequest
    states = [
        request.StopReplicaPartitionState(
            partition_index=index, leader_epoch=-2, delete_partition=index > 0
        )
        for index in range(2)
    ]
    topics = [request.StopReplicaTopicState(topic_name=topic, partition_states=states)]
    return ControlRequest(broker_id, request(topic_states=topics), 3)


def update_metadata(broker_id: int, leaders: dict[str, list[int]]) -> ControlRequest:
    request = m.UpdateMetadataRequest
    topics = [
        request.UpdateMetadataTopicState(
            topic_name=name,
            partition_states=[
                request.UpdateMetadataPartitionState(partition_index=index, leader=leader)
                for index, leader in enumerate(listed)
            ],
        )
        for name, listed in leaders.items()
    ]
    return ControlRequest(broker_id, request(topic_states=topics), 7)


def test_a_topic_at_a_time() -> None:
    asked = leader_and_isr(0, {"t": 3, "many": 30})
    assert request_by_topic(asked) == [
        ("t", "follow partition 1; lead partitions 0,2", None),
        ("many", "follow partitions 1,3,5,7,9,11,13,15,17,19,21,23,25,27,29; "
         "lead partitions 0,2,4,6,8,10,12,14,16,18,20,22,24,26,28", None),
    ]  # fmt: skip
    assert request_by_topic(stop_replica(0, "t"))[0].words == "delete partition 1; stop partition 0"
    told = update_metadata(0, {"t": [1, 2], "going": [-2]})
    assert [words for _, words, _ in request_by_topic(told)] == [
        "know partitions 0,1",
        "forget partition 0",
    ]
    assert request_by_topic(update_metadata(0, {})) == [(None, "live brokers only", None)]


def test_large_requests_have_few_words() -> None:
    assert request_by_topic(leader_and_isr(0, {"t": 5000}))[0].words == (
        "follow 2500 partitions; lead 2500 partitions"
    )
    names = {f"t{number}": 1 for number in range(MAX_TOPICS_TOLD + 1)}
    asked = leader_and_isr(0, names)
    assert request_by_topic(asked) == [("*", "101 topics", None)]
    answer = m.LeaderAndIsrResponse(error_code=11)
    assert answer_by_topic(asked.message, answer) == [("*", "101 topics", "STALE_CONTROLLER_EPOCH")]


def test_answers() -> None:
    asked = leader_and_isr(0, {"t": 3, "u": 1})
    error = m.LeaderAndIsrResponse.LeaderAndIsrPartitionError
    response = m.LeaderAndIsrResponse(
        topics=[
            m.LeaderAndIsrResponse.LeaderAndIsrTopicError(
                topic_id=b"t".ljust(16),
                partition_errors=[
                    error(partition_index=0, error_code=0),
                    error(partition_index=1, error_code=56),
                    error(partition_index=2, error_code=999),
                ],
            )
        ]
    )
    assert answer_by_topic(asked.message, response) == [
        ("t", "KAFKA_STORAGE_ERROR for partition 1; code 999 for partition 2",
         "KAFKA_STORAGE_ERROR"),
        ("u", "", "NONE"),
    ]  # fmt: skip
    stopped = m.StopReplicaResponse.StopReplicaPartitionError
    refused = m.StopReplicaResponse(
        partition_errors=[stopped(topic_name="t", partition_index=1, error_code=74)]
    )
    assert answer_by_topic(stop_replica(0, "t").message, refused)[0] == (
        "t", "FENCED_LEADER_EPOCH for partition 1", "FENCED_LEADER_EPOCH"
    )  # fmt: skip
    stale = m.UpdateMetadataResponse(error_code=77)
    told = update_metadata(0, {"t": [1]})
    assert answer_by_topic(told.message, stale) == [("t", "", "STALE_BROKER_EPOCH")]


def test_lines_are_those_of_apache_kafka() -> None:
    requests = [
        leader_and_isr(1, {"t": 2}),
        update_metadata(0, {"t": [0, 1]}),
        update_metadata(1, {"t": [0, 1]}),
        stop_replica(0, "t"),
    ]
    state = (
        "LeaderAndIsrPartitionState(topicName='t', partitionIndex={p}, controllerEpoch=1, "
        "leader={p}, leaderEpoch=3, isr=[0, 1], zkVersion=5, replicas=[0, 1], addingReplicas=[], "
        "removingReplicas=[], isNew=true)"
    )
    stop = "StopReplicaPartitionState(partitionIndex={}, leaderEpoch=-2, deletePartition={})"
    expected: list[tuple[int, str]] = [
        (TRACE, f"Sending become-follower LeaderAndIsr request {state.format(p=0)} to broker 1 for "
                "partition t-0"),
        (TRACE, f"Sending become-leader LeaderAndIsr request {state.format(p=1)} to broker 1 for "
                "partition t-1"),
        (logging.INFO, "Sending LeaderAndIsr request to broker 1 with 1 become-leader and 1 "
                       "become-follower partitions"),
        (logging.INFO, "Sending UpdateMetadata request to brokers HashSet(0, 1) for 2 partitions"),
        (TRACE, f"Sending StopReplica request {stop.format(0, 'false')} to broker 0 for partition "
                "t-0"),
        (TRACE, f"Sending StopReplica request {stop.format(1, 'true')} to broker 0 for partition "
                "t-1"),
        (logging.INFO, "Sending StopReplica request for 2 replicas to broker 0"),
    ]  # fmt: skip
    assert list(log_lines(requests, traced=True)) == expected
    untraced: Any = [line for line in expected if line[0] != TRACE]
    assert list(log_lines(requests, traced=False)) == untraced
    large = leader_and_isr(1, {"t": MAX_PARTITIONS_TRACED + 1})
    assert len(list(log_lines([large], traced=True))) == 1
