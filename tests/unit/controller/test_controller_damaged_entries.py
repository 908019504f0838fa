"""Entries of Ottla's own that somebody has damaged: nothing is done by them, and nothing stops."""

from __future__ import annotations

import json

import pytest

from ottla.controller.renaming.progress import Renamed
from ottla.metadata.ended import EndedTopic, EndedTopicZnode, Kept
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.renames import RenamePhase, RenameZnode, StoredRename
from ottla.metadata.resizes import ResizePhase, ResizeZnode, StoredResize
from ottla.metadata.znodes import TopicZnode
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m
from tests.support.controller.controlled_cluster import ControlledCluster, eventually

ID = b"i" * 16
OTHER = b"o" * 16


async def put(cluster: ControlledCluster, path: str, data: bytes) -> None:
    await cluster.create_path(path)
    await cluster.admin.set(path, data)


def changed(data: bytes, **fields: object) -> bytes:
    return json.dumps(json.loads(data) | fields).encode()


async def test_a_controller_is_elected_beside_them(cluster: ControlledCluster) -> None:
    kept = EndedTopicZnode.encode_entry(EndedTopic("t", (), Kept(1, 2, {0: (1,)}, {}, 0, {})))
    rename = RenameZnode.encode(StoredRename("a", "b", RenamePhase.MOVING))
    resize = ResizeZnode.encode(
        StoredResize("t", ID, "s", OTHER, 5, 2, "murmur2", ResizePhase.MOVING, 0, 1)
    )
    damaged = {
        EndedTopicZnode.path(ID): changed(kept, undelete_as="../x"),
        EndedTopicZnode.path(OTHER): changed(kept, partitions={"0": [2**40]}),
        RenameZnode.path(ID): changed(rename, to="a/b"),
        ResizeZnode.path(ID): changed(resize, shadow="../../x"),
        ResizeZnode.path(OTHER): resize,  # of another id
    }
    for path, data in damaged.items():
        await put(cluster, path, data)
    controller = await cluster.start_controller(0)
    assert await eventually(lambda: controller.is_active)
    await cluster.create_topic("new", {0: (0, 1)})
    assert await cluster.state("new") is not None
    for path, data in damaged.items():
        assert (await cluster.admin.get(path))[0] == data


async def test_they_do_not_stand_in_the_way_of_a_rename_or_a_resize(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OttlaBrokerZnode, "belongs_to", staticmethod(lambda stat, epoch: True))
    for broker_id in cluster.brokers:
        await put(cluster, OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode())
    for path in (RenameZnode.path(ID), ResizeZnode.path(ID)):
        await put(cluster, path, b"garbage")
    controller = await cluster.start_controller(0)
    await cluster.create_topic("old", {0: (0, 1)}, topic_id=ID)
    assert await controller.renames.rename("old", "new", ZERO_TOPIC_ID) == Renamed(ID, 0, 0, ())
    assert await cluster.exists(TopicZnode.path("new"))
    begun = await controller.resizes.begin(
        m.BeginResizeRequest(topic="new", partitions=3, partitioner="murmur2")
    )
    assert [resize.topic for resize in controller.resizes.under_way() or ()] == ["new"], begun
