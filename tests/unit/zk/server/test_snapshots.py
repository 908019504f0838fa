"""When a snapshot is due, and what it leaves in the folder."""

from __future__ import annotations

import asyncio
import copy
import random
import threading
from pathlib import Path

from ottla.metadata.store import OPEN_ACL, Acl, CreateMode, EventType, WatchEvent
from ottla.runtime import Runtime, SystemNetwork, system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine
from ottla.zk.server.journal import Journal
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.snapshots import Snapshots
from ottla.zk.server.tree import CreateSessionTxn, CreateTxn, Tree
from tests.support.zk.crash_disk import CrashDisk
from tests.support.zk.polling import until

FOLDER = Path("/store")


async def durable(zxid: int) -> None:
    """As it is for everything that was written before it was asked for."""


async def test_one_is_due_after_so_much_journal_and_not_while_another_is_taken():
    disk = CrashDisk()
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)
    journal = Journal(disk, FOLDER)
    tree = journal.load()
    snapshots = Snapshots(runtime, journal, 100, durable)
    assert not snapshots.is_due

    def write(zxids: range) -> None:
        for zxid in zxids:
            txn = CreateSessionTxn(zxid, 5000)
            tree.apply(zxid, 0, txn, [])
            journal.append(zxid, 0, (txn,))
        journal.write(journal.take())

    write(range(1, 20))
    assert snapshots.is_due
    journal.rotate(20)
    snapshots.begin(tree, 19)
    write(range(20, 30))
    assert not snapshots.is_due, "one is under way"
    await until(lambda: not snapshots.is_under_way)
    assert not snapshots.is_due, "what was written since is less than the snapshot has"
    write(range(30, 80))
    assert snapshots.is_due
    again: Tree = Journal(disk, FOLDER).load()
    assert again.sessions == tree.sessions
    assert f"snapshot.{19:016x}" in disk.list_dir(FOLDER)
    journal.close()


async def test_one_that_is_cancelled_is_not_written():
    disk = CrashDisk()
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)
    journal = Journal(disk, FOLDER)
    snapshots = Snapshots(runtime, journal, 0, durable)
    snapshots.begin(journal.load(), 0)
    snapshots.cancel()
    await asyncio.sleep(0)
    assert not snapshots.is_under_way
    assert not any(name.startswith("snapshot.") for name in disk.list_dir(FOLDER))
    journal.close()


def engine_on(disk: CrashDisk, **options) -> Engine:
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)
    return Engine(runtime, FOLDER, **options)


async def restarted_from_a_snapshot(disk: CrashDisk, engine: Engine) -> Engine:
    """A crash right after a snapshot of everything so far, so that no journal tells it again."""
    zxid = engine.tree.last_zxid
    engine.pipeline._journal.rotate(zxid + 1)
    engine.pipeline._snapshots.begin(engine.tree, zxid)
    await until(lambda: not engine.pipeline._snapshots.is_under_way)
    await engine.stop()
    disk.crash()
    for name in disk.list_dir(FOLDER):
        if name.startswith("journal.") and name < f"journal.{zxid + 1:016x}":
            disk.remove(FOLDER / name)
    again = engine_on(disk)
    await again.start()
    assert again.tree.last_zxid >= zxid
    return again


async def test_sessions_that_a_snapshot_tells_of_still_end_and_take_their_nodes_along():
    disk = CrashDisk()
    engine = engine_on(disk)
    await engine.start()
    dead, alive = engine.open_session(5000), engine.open_session(9000)
    for session, path in ((dead, "/controller"), (dead, "/b"), (alive, "/c")):
        engine.create(session, (), path, b"", OPEN_ACL, CreateMode.EPHEMERAL)
    password = engine.sessions.password(alive.id)
    await EmbeddedStore(engine).sync()
    again = await restarted_from_a_snapshot(disk, engine)
    assert {session.id: session.timeout_ms for session in again.sessions} == {
        dead.id: 5000,
        alive.id: 9000,
    }
    back = again.sessions.authenticate(alive.id, password)
    assert back is not None
    assert again.tree.nodes["/controller"].stat().ephemeral_owner == dead.id
    watcher = EmbeddedStore(again)
    heard = []
    await watcher.exists("/controller", heard.append)
    again.expire_session(again.sessions.get(dead.id))
    await until(lambda: heard)
    assert heard == [WatchEvent(EventType.DELETED, "/controller")]
    assert "/b" not in again.tree.nodes
    assert "/c" in again.tree.nodes
    again.close_session(back)
    assert "/c" not in again.tree.nodes
    assert again.open_session(5000).id > alive.id
    await again.stop()


async def test_sessions_of_the_process_that_took_a_snapshot_end_with_it():
    disk = CrashDisk()
    engine = engine_on(disk)
    await engine.start()
    await EmbeddedStore(engine).create("/controller", mode=CreateMode.EPHEMERAL)
    again = await restarted_from_a_snapshot(disk, engine)
    assert "/controller" not in again.tree.nodes
    assert again.tree.sessions == {}
    await again.stop()


async def test_nodes_of_a_session_that_nobody_knows_go_at_the_start(caplog):
    """A snapshot of an earlier version could hold them."""
    disk = CrashDisk()
    journal = Journal(disk, FOLDER)
    journal.load()
    journal.append(1, 0, [CreateTxn("/controller", b"", OPEN_ACL, 77, 1)])
    journal.write(journal.take())
    journal.close()
    engine = engine_on(disk)
    await engine.start()
    assert "/controller" not in engine.tree.nodes
    assert "session 0x4d is unknown" in caplog.text
    await engine.stop()


async def test_counters_go_on_after_a_snapshot():
    """Of children ever made, of versions, of zxids."""
    disk = CrashDisk()
    engine = engine_on(disk, options=StoreOptions(extended_types=True))
    await engine.start()
    store = EmbeddedStore(engine)
    await store.create("/q")
    for _ in range(3):
        last, _ = await store.create("/q/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await store.delete(last)
    await store.set("/q", b"1")
    await store.set_acl("/q", (Acl(31, "ip", "127.0.0.1"),))
    await store.create("/box", mode=CreateMode.CONTAINER)
    await store.create("/box/a")
    await store.delete("/box/a")
    await store.create("/t", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=70_000)
    before = {path: node.stat() for path, node in engine.tree.nodes.items()}
    again = await restarted_from_a_snapshot(disk, engine)
    assert {path: node.stat() for path, node in again.tree.nodes.items()} == before
    store = EmbeddedStore(again)
    path, made = await store.create("/q/n-", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    assert path == "/q/n-0000000003"
    assert made.czxid > max(stat.mzxid for stat in before.values())
    assert (await store.set("/q", b"2", 1)).version == 2
    assert list(again.tree.ttls) == ["/t"]
    assert again.tree.is_idle("/box", made.ctime)
    assert not again.tree.is_idle("/t", made.ctime)
    assert again.tree.is_idle("/t", made.ctime + 71_000)
    await again.stop()


async def test_a_snapshot_tells_nothing_that_the_journal_does_not(monkeypatch):
    """A session ends while a snapshot is taken that has its node already, and power goes before
    the journal has heard of the end: a node of nobody would stay for ever."""
    monkeypatch.setattr("ottla.zk.server.snapshots.SLICE_NODES", 1)
    disk = CrashDisk()
    engine = engine_on(disk)
    await engine.start()
    session = engine.open_session(5000)
    engine.create(session, (), "/controller", b"", OPEN_ACL, CreateMode.EPHEMERAL)
    for number in range(20):
        engine.create(session, (), f"/{number}", b"", OPEN_ACL, CreateMode.PERSISTENT)
    await EmbeddedStore(engine).sync()
    pipeline = engine.pipeline
    zxid = engine.tree.last_zxid
    pipeline._journal.rotate(zxid + 1)
    stuck, released = threading.Event(), threading.Event()
    write = pipeline._journal.write

    def slow_write(batch: bytes) -> None:
        stuck.set()
        assert released.wait(10)
        write(batch)

    monkeypatch.setattr(pipeline._journal, "write", slow_write)
    pipeline._snapshots.begin(engine.tree, zxid)
    # Until the snapshot is past the node; reserved ones and /controller come first.
    for _ in range(10):
        await asyncio.sleep(0)
    engine.close_session(session)
    await until(stuck.is_set)
    # The snapshot gets as far as it can.
    await until(lambda: not pipeline._snapshots.is_under_way or pipeline._awaited)
    found = copy.deepcopy(disk)
    found.crash()
    released.set()
    await engine.stop()
    again = engine_on(found)
    await again.start()
    owner = again.tree.nodes["/controller"].owner
    assert again.sessions.get(owner) is not None
    await again.stop()
