"""Replicas on their way from one folder of a broker to another."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.broker.handlers import alter_replica_log_dirs, describe_log_dirs
from ottla.broker.replication import log_dir_moves
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode
from ottla.wire import messages as m
from tests.support.broker.replica_cluster import (
    TP,
    Broker,
    MakeBrokers,
    brokers,
    lead,
    offsets,
    until,
)

__all__ = ["brokers"]
OTHER_ID = b"x" * 16


def use_two_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Brokers made afterwards have the folders <id> and <id>-b."""
    make = BrokerConfig.from_properties

    def with_second(properties: dict[str, str]) -> BrokerConfig:
        first = properties["log.dirs"]
        return make({**properties, "log.dirs": f"{first},{first}-b"})

    monkeypatch.setattr(BrokerConfig, "from_properties", with_second)


async def move(broker: Broker, folder: Path) -> ErrorCode:
    request = m.AlterReplicaLogDirsRequest
    topic = request.AlterReplicaLogDirTopic(name=TP.topic, partitions=[TP.partition])
    answer = await alter_replica_log_dirs.handle(
        broker.context(1),
        request(dirs=[request.AlterReplicaLogDir(path=str(folder), topics=[topic])]),
    )
    return ErrorCode(answer.results[0].partitions[0].error_code)


async def places(broker: Broker) -> dict[str, tuple[bool, int]]:
    """Folder -> (is a copy, lag) of the replica, as DescribeLogDirs tells."""
    answer = await describe_log_dirs.handle(
        broker.context(1), m.DescribeLogDirsRequest(topics=None)
    )
    return {
        Path(result.log_dir).name: (partition.is_future_key, partition.offset_lag)
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    }


def other_folder(broker: Broker) -> Path:
    return next(path for path in broker.config.log_dirs if path != broker.log.data_dir)


@pytest.fixture
def two_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_two_folders(monkeypatch, tmp_path)


async def test_a_leader_moves_with_all_records_and_goes_on(
    two_folders: None, brokers: MakeBrokers
) -> None:
    [broker] = await brokers(1, segment_bytes=2000)
    broker.order(0, 1, replicas=[0])
    for _ in range(50):
        await broker.produce(3)
    target, old = other_folder(broker), broker.log.folder
    assert await move(broker, target) is ErrorCode.NONE
    is_future, lag = (await places(broker))[target.name]
    # The copy goes on while it is described.
    assert is_future is (lag > 0) and lag <= 150
    await broker.produce(3)
    await until(lambda: broker.log.data_dir == target)
    await broker.produce(3)
    assert offsets(broker.log)[:10] == list(range(10)) and broker.log.end_offset == 156
    assert broker.log.high_watermark == 156 and broker.log.epochs.entries() == [(1, 0)]
    assert await places(broker) == {target.name: (False, 0)}
    assert broker.log.folder == target / "t-0" and not old.exists()
    assert (target / "t-0" / "partition.metadata").exists()


async def test_a_follower_moves_and_fetches_on(two_folders: None, brokers: MakeBrokers) -> None:
    members = await brokers(2)
    lead(members, 0, 1)
    await members[0].produce(5, acks=-1)
    follower = members[1]
    target = other_folder(follower)
    assert await move(follower, target) is ErrorCode.NONE
    await until(lambda: follower.log.data_dir == target)
    result = await members[0].produce(5, acks=-1)
    assert result.error is ErrorCode.NONE and follower.log.end_offset == 10


async def test_a_log_moves_whose_start_lies_inside_a_batch(
    two_folders: None, brokers: MakeBrokers
) -> None:
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    for _ in range(3):
        await broker.produce(5)
    broker.log.advance_start_offset(7)  # DeleteRecords
    target = other_folder(broker)
    assert await move(broker, target) is ErrorCode.NONE
    await until(lambda: broker.log.data_dir == target)
    assert broker.log.start_offset == 7 and offsets(broker.log)[-8:] == list(range(7, 15))


async def test_naming_the_old_folder_ends_a_move(
    two_folders: None, brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_dir_moves, "dynamic_rate", lambda *_: 1)
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(3)
    await broker.produce(3)
    home = broker.log.data_dir
    assert await move(broker, other_folder(broker)) is ErrorCode.NONE
    await asyncio.sleep(0.02)
    assert await move(broker, home) is ErrorCode.NONE
    assert await places(broker) == {home.name: (False, 0)}
    assert [path.name.rpartition("-")[2] for path in other_folder(broker).glob("t-0*")] == [
        "delete"
    ]


async def test_a_truncation_meanwhile_starts_the_copy_over(
    two_folders: None, brokers: MakeBrokers
) -> None:
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    for _ in range(4):
        await broker.produce(3)
    target = other_folder(broker)
    assert await move(broker, target) is ErrorCode.NONE
    await asyncio.sleep(0)
    broker.log.truncate_to(6)
    await broker.produce(1)
    await until(lambda: broker.log.data_dir == target)
    assert offsets(broker.log) == list(range(7))


async def test_a_move_goes_on_after_a_restart(
    two_folders: None, brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(log_dir_moves, "dynamic_rate", lambda *_: 1)
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    for _ in range(3):
        await broker.produce(3)
    target = other_folder(broker)
    await move(broker, target)
    await asyncio.sleep(0.02)
    await broker.stop()
    monkeypatch.setattr(log_dir_moves, "dynamic_rate", lambda *_: 1 << 40)
    again = Broker(0, tmp_path)
    await again.start()
    again.know([0])
    assert again.order(0, 2, replicas=[0], is_new=False) is ErrorCode.NONE
    await until(lambda: again.log.data_dir == target)
    assert offsets(again.log) == list(range(9))
    # The fixture stops what it started.
    monkeypatch.setattr(broker, "stop", again.stop)


async def test_a_deleted_replica_takes_its_copy_along(
    two_folders: None, brokers: MakeBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_dir_moves, "dynamic_rate", lambda *_: 1)
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(3)
    await broker.produce(3)
    target = other_folder(broker)
    await move(broker, target)
    await asyncio.sleep(0.02)
    broker.manager.delete(TP)
    left = [path.name for folder in broker.config.log_dirs for path in folder.glob("t-0*")]
    assert len(left) == 2 and all(name.endswith("-delete") for name in left)


async def test_what_cannot_be_moved(two_folders: None, brokers: MakeBrokers) -> None:
    [broker] = await brokers(1)
    target = broker.config.log_dirs[1]
    assert await move(broker, target) is ErrorCode.REPLICA_NOT_AVAILABLE
    assert await move(broker, target.parent) is ErrorCode.LOG_DIR_NOT_FOUND
    broker.order(0, 1, replicas=[0])
    assert broker.log.data_dir == target  # it was remembered
    broker.log_manager.dirs.failed(target, OSError("broken"))
    assert await move(broker, target) is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_copy_of_another_topics_log_never_takes_a_place(
    two_folders: None, brokers: MakeBrokers
) -> None:
    """The folder of its log failed, and its topic was deleted and made again by the next start."""
    [broker] = await brokers(1)
    broker.order(0, 1, replicas=[0])
    await broker.produce(5)
    logs, old, target = broker.log_manager, broker.log, other_folder(broker)
    copy = logs.create_future(TP, target)
    copy.append_as_follower(old.read(0, 10_000, 5, min_one_batch=True))
    broker.manager.stop_hosting(TP)
    logs._table.remove(TP)
    old.folder.rename(old.folder.parent.parent / "failed")
    logs.prefer_dir(TP, old.data_dir)
    broker.order(0, 1, replicas=[0], topic_id=OTHER_ID)
    await broker.produce(1)
    assert logs.future(TP) is None and not copy.folder.name.endswith("-future")
    assert (broker.log.topic_id, broker.log.end_offset) == (OTHER_ID, 1)
