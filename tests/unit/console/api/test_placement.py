"""Who removes the throttles when moves are done, and what is left when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ottla.client.admin.types import ConfigResource
from ottla.console.api.placement import MoveRunner
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

T0 = TopicPartition("t", 0)


class _Admin:
    """Nothing moves; edits of configs are noted, or refused."""

    def __init__(self) -> None:
        self.edited: list[ConfigResource] = []
        self.elected: list[TopicPartition] = []
        self.refusal: KafkaError | None = None

    async def list_reassignments(self) -> dict[TopicPartition, Any]:
        return {}

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(nodes=[SimpleNamespace(id=0)])

    async def elect_leaders(self, _kind: object, partitions: list[TopicPartition]) -> None:
        self.elected += partitions

    async def incremental_alter_configs(
        self, edits: Mapping[ConfigResource, Any]
    ) -> dict[ConfigResource, KafkaError | None]:
        self.edited += edits
        return dict.fromkeys(edits, self.refusal)


async def _done(runner: MoveRunner) -> None:
    async with asyncio.timeout(10):
        while runner.is_watching:  # noqa: ASYNC110 - its task is its own
            await asyncio.sleep(0)


def _runner(admin: _Admin) -> MoveRunner:
    runner = MoveRunner(admin)  # type: ignore[arg-type]
    runner.watch([T0], brokers=[0, 1], elect=True, is_throttled=True)
    return runner


async def test_throttles_go_and_first_replicas_lead_when_nothing_moves() -> None:
    admin = _Admin()
    runner = _runner(admin)
    await _done(runner)
    brokers = [ConfigResource.broker(0), ConfigResource.broker(1)]
    assert admin.edited == [*brokers, ConfigResource.topic("t")]
    assert admin.elected == [T0]
    assert (runner.problem, runner.topics_left) == (None, [])


async def test_what_could_not_be_removed_is_remembered_and_tried_again() -> None:
    admin = _Admin()
    admin.refusal = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    runner = _runner(admin)
    await _done(runner)
    assert runner.problem is not None
    assert runner.topics_left == ["t"]
    admin.refusal = None
    runner.watch([TopicPartition("u", 0)], brokers=[0], elect=False, is_throttled=False)
    await _done(runner)
    assert ConfigResource.topic("t") in admin.edited[-2:]
    assert (runner.problem, runner.topics_left) == (None, [])


async def test_an_unthrottled_move_edits_nothing() -> None:
    admin = _Admin()
    runner = MoveRunner(admin)  # type: ignore[arg-type]
    runner.watch([T0], brokers=[0], elect=False, is_throttled=False)
    await _done(runner)
    assert admin.edited == []
