"""Sessions that own many nodes end in several writes, and a crash may come between any two."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ottla.metadata.store import OPEN_ACL, CreateMode
from ottla.runtime import Runtime, SystemNetwork, system_runtime
from ottla.zk.server import records
from ottla.zk.server.endings import SLICE_CHARS, SLICE_NODES, first_slice
from ottla.zk.server.engine import Engine
from ottla.zk.server.journal import Journal
from ottla.zk.server.sessions import SessionLimits
from ottla.zk.server.tree import CloseSessionTxn, CreateSessionTxn, CreateTxn
from tests.support.zk.crash_disk import CrashDisk
from tests.support.zk.polling import until

FOLDER = Path("/store")


async def started(disk: CrashDisk) -> Engine:
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)  # type: ignore[arg-type]
    engine = Engine(runtime, FOLDER, limits=SessionLimits.of(100, 100, 60_000))
    await engine.start()
    return engine


def test_a_slice_has_few_nodes_and_few_bytes():
    assert first_slice([]) == []
    assert len(first_slice(map(str, range(10_000)))) == SLICE_NODES
    assert first_slice(["x" * SLICE_CHARS, "y"]) == ["x" * SLICE_CHARS]
    assert first_slice(["x" * (SLICE_CHARS + 1), "y"]) == ["x" * (SLICE_CHARS + 1)]


async def test_many_nodes_go_in_records_that_a_start_can_read(monkeypatch):
    """Before, 300 long paths made one record that was longer than any start would read."""
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 1 << 20)
    disk = CrashDisk()
    engine = await started(disk)
    session = engine.open_session(60_000)
    assert session is not None
    name = "n" * 12_000
    for number in range(300):
        engine.create(session, (), f"/{number}{name}", b"", OPEN_ACL, CreateMode.EPHEMERAL)
    gone = asyncio.Event()
    engine.close_session(session, gone.set)
    assert not gone.is_set(), "that many do not go at once"
    async with asyncio.timeout(20):
        await gone.wait()
    assert not engine.tree.ephemerals
    await until(lambda: engine.pipeline.durable_zxid == engine.tree.last_zxid)
    disk.crash()
    again = await started(disk)
    assert not again.tree.ephemerals
    assert session.id not in again.tree.sessions
    await again.stop()


@pytest.mark.parametrize("nodes", [SLICE_NODES - 1, SLICE_NODES, SLICE_NODES + 1])
async def test_around_one_slice(nodes):
    disk = CrashDisk()
    engine = await started(disk)
    session = engine.open_session(60_000)
    assert session is not None
    for number in range(nodes):
        engine.create(session, (), f"/n{number}", b"", OPEN_ACL, CreateMode.EPHEMERAL)
    before = engine.tree.last_zxid
    gone = asyncio.Event()
    engine.close_session(session, gone.set)
    async with asyncio.timeout(20):
        await gone.wait()
    assert engine.tree.last_zxid - before == (1 if nodes <= SLICE_NODES else 2)
    assert not engine.tree.ephemerals
    await engine.stop()


async def test_a_crash_between_two_slices_leaves_a_session_that_expires():
    disk = CrashDisk()
    engine = await started(disk)
    session = engine.open_session(100)
    assert session is not None
    for number in range(3 * SLICE_NODES):
        engine.create(session, (), f"/n{number}", b"", OPEN_ACL, CreateMode.EPHEMERAL)
    engine.close_session(session)
    engine._endings._step()
    # The process goes before there is a second.
    engine.turns.forget(engine._endings)
    await until(lambda: engine.pipeline.durable_zxid == engine.tree.last_zxid)
    disk.crash()
    again = await started(disk)
    assert 0 < len(again.tree.ephemerals[session.id]) < 3 * SLICE_NODES
    assert session.id in again.tree.sessions
    await until(lambda: not again.tree.ephemerals, 20)
    await again.stop()


def test_a_folder_with_a_long_record_of_an_older_version_is_read(monkeypatch):
    disk = CrashDisk()
    journal = Journal(disk, FOLDER)  # type: ignore[arg-type]
    journal.load()
    paths = [f"/{number}" + "n" * 1000 for number in range(50)]
    journal.append(1, 5, [CreateSessionTxn(7, 1000)])
    for zxid, path in enumerate(paths, start=2):
        journal.append(zxid, 5, [CreateTxn(path, b"", OPEN_ACL, 7, zxid)])
    journal.append(52, 5, [CloseSessionTxn(7, tuple(paths))])
    journal.append(53, 5, [CreateTxn("/after", b"", OPEN_ACL, 0, 53)])
    journal.write(journal.take())
    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 1 << 14)
    tree = Journal(disk, FOLDER).load()  # type: ignore[arg-type]
    assert "/after" in tree.nodes
    assert not tree.ephemerals


def test_no_record_is_written_that_no_start_would_look_for(monkeypatch):
    from ottla.errors import InvariantViolated

    monkeypatch.setattr(records, "MAX_RECORD_BYTES", 1 << 10)
    with pytest.raises(InvariantViolated):
        records.encode_record(1, 0, [CreateTxn("/a", bytes(2000), OPEN_ACL, 0, 1)])
