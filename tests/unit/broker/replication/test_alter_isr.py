"""ISR changes on their way to the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.broker.replication.alter_isr import AlterIsrManager, IsrAnswer, IsrChange
from ottla.errors import ErrorCode
from ottla.types import TopicPartition
from ottla.wire import messages as m
from tests.support.broker.replica_cluster import TP


class FakeController:
    """Answers with what `script` holds, one item per request."""

    def __init__(self, script: list[Any]) -> None:
        self.script = script
        self.requests: list[m.AlterPartitionRequest] = []

    async def send(self, message: object, version: int, *, timeout_ms: int) -> object:
        assert isinstance(message, m.AlterPartitionRequest) and version == 0
        self.requests.append(message)
        step = self.script.pop(0)
        await asyncio.sleep(0)
        if isinstance(step, Exception):
            raise step
        return step(message)


def answer_all(error: ErrorCode) -> Callable[[m.AlterPartitionRequest], m.AlterPartitionResponse]:
    def build(request: m.AlterPartitionRequest) -> m.AlterPartitionResponse:
        response = m.AlterPartitionResponse
        return response(
            topics=[
                response.TopicData(
                    topic_name=topic.topic_name,
                    partitions=[
                        response.PartitionData(
                            partition_index=part.partition_index,
                            error_code=error,
                            leader_epoch=part.leader_epoch,
                            isr=part.new_isr,
                            partition_epoch=part.partition_epoch + 1,
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return build


def top_level(error: ErrorCode) -> Callable[[m.AlterPartitionRequest], m.AlterPartitionResponse]:
    return lambda _: m.AlterPartitionResponse(error_code=error)


async def submit(script: list[Any], tps: list[TopicPartition]) -> tuple[FakeController, list[Any]]:
    controller = FakeController(script)
    manager = AlterIsrManager(controller, 0, lambda: 77)
    answers: list[Any] = []
    for tp in tps:
        change = IsrChange(tp, 3, (0, 1), 5, lambda answer, tp=tp: answers.append((tp, answer)))  # type: ignore[misc]
        assert manager.submit(change)
        assert not manager.submit(change)
    async with asyncio.timeout(2):
        while len(answers) < len(tps):  # noqa: ASYNC110 - the answers are what is waited for
            await asyncio.sleep(0.005)
    await manager.shutdown()
    return controller, answers


async def test_changes_made_together_travel_together() -> None:
    other = TopicPartition("u", 4)
    controller, answers = await submit([answer_all(ErrorCode.NONE)], [TP, other])
    assert len(controller.requests) == 1
    request = controller.requests[0]
    assert (request.broker_id, request.broker_epoch) == (0, 77)
    assert [topic.topic_name for topic in request.topics] == ["t", "u"]
    assert request.topics[1].partitions[0].new_isr == [0, 1]
    assert dict(answers)[TP] == IsrAnswer(ErrorCode.NONE, 0, 3, (0, 1), 6)


async def test_failures_as_a_whole_are_sent_again() -> None:
    script = [
        ConnectionError("no controller"),
        top_level(ErrorCode.NOT_CONTROLLER),
        top_level(ErrorCode.NONE),  # an answer that leaves the partition out
        answer_all(ErrorCode.FENCED_LEADER_EPOCH),
    ]
    controller, answers = await submit(script, [TP])
    assert len(controller.requests) == 4
    assert [answer.error for _, answer in answers] == [ErrorCode.FENCED_LEADER_EPOCH]
