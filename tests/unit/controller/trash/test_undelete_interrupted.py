"""A controller that loses its office in the middle does not say that nothing was done."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopic, EndedTopicZnode, Kept
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.znodes import ControllerEpochZnode
from tests.support.controller.controlled_cluster import ControlledCluster

ID = b"t" * 16


async def test_the_next_controller_may_finish_it(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))
    for broker_id in cluster.brokers:
        await cluster.create_path(OttlaBrokerZnode.path(broker_id))
        await cluster.admin.set(OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    kept = Kept(0, 2**60, {0: (0, 1)}, {}, 3, {})
    await cluster.create_path(EndedTopicZnode.parent())
    entry = EndedTopicZnode.encode_entry(EndedTopic("t", (0, 1), kept))
    await cluster.admin.create(EndedTopicZnode.path(ID), entry)
    controller = await cluster.start_controller(0)
    # Somebody else has won an election since: the next write is refused.
    await cluster.admin.set(ControllerEpochZnode.path(), b"99")
    answer = await controller.trash.undelete_topic("t", ID, None)
    assert isinstance(answer, KafkaError)
    assert answer.code is ErrorCode.REQUEST_TIMED_OUT
    # Of what it has not begun it can say so.
    assert await controller.trash.undelete_topic("t", ID, None) is None
