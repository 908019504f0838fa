"""Acknowledged writes survive crashes; torn tails do not come back; snapshots lose nothing."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from ottla.metadata.store import (
    Acl,
    Create,
    CreateMode,
    Delete,
    NodeExistsError,
    NoNodeError,
    SetData,
    StoreError,
)
from ottla.runtime import Runtime, SystemClock, SystemNetwork
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server import journal as journal_module
from ottla.zk.server import records
from ottla.zk.server.engine import Engine
from ottla.zk.server.records import DamagedFile
from ottla.zk.server.tree import CreateTxn, Tree
from tests.support.zk.crash_disk import CrashDisk
from tests.support.zk.polling import until

FOLDER = Path("/store")


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    """Megabytes of zeros cost the disk in memory more than everything else together."""
    monkeypatch.setattr(journal_module, "PREALLOCATED_BYTES", 1 << 14)
    monkeypatch.setattr(journal_module, "_ZEROS", bytes(1 << 12))


def runtime_on(disk: CrashDisk) -> Runtime:
    return Runtime(SystemClock(), random.Random(1), SystemNetwork(), disk)  # type: ignore[arg-type]


async def engine_on(disk: CrashDisk, **options) -> Engine:
    engine = Engine(runtime_on(disk), FOLDER, **options)
    await engine.start()
    return engine


def picture(tree: Tree) -> dict[str, tuple]:
    return {
        path: (node.data, node.acl, node.stat(), sorted(node.children or ()))
        for path, node in tree.nodes.items()
    }


async def test_everything_is_there_after_a_restart():
    disk = CrashDisk()
    engine = await engine_on(disk)
    store = EmbeddedStore(engine)
    await store.create("/a", b"1")
    await store.create("/a/n-", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL)
    await store.set("/a", None)
    await store.set_acl("/a", (Acl(1, "ip", "127.0.0.1"),))
    await store.create("/box", mode=CreateMode.CONTAINER)
    await store.multi([Create("/m"), Create("/m/x"), Delete("/m/x"), SetData("/m", "é".encode())])
    session = engine.open_session(10_000)
    engine.create(session, (), "/e", b"", store_acl(), CreateMode.EPHEMERAL)
    await store.close()
    before = picture(engine.tree)
    await engine.stop()
    again = await engine_on(disk)
    assert picture(again.tree) == before
    assert again.tree.last_zxid == engine.tree.last_zxid
    assert again.tree.sessions == {session.id: 10_000}
    assert list(again.tree.containers) == ["/box"]
    assert again.sessions.authenticate(session.id, engine.sessions.password(session.id))
    await again.stop()


def store_acl() -> tuple[Acl, ...]:
    return (Acl(31, "world", "anyone"),)


async def test_a_session_of_the_old_process_is_gone_after_a_restart():
    disk = CrashDisk()
    engine = await engine_on(disk)
    await EmbeddedStore(engine).create("/e", mode=CreateMode.EPHEMERAL)
    disk.crash()
    again = await engine_on(disk)
    assert await EmbeddedStore(again).exists("/e") is None
    await again.stop()


@pytest.mark.parametrize("seed", range(25))
async def test_a_crash_takes_back_nothing_that_was_acknowledged(seed):
    disk = CrashDisk(seed)
    chooser = random.Random(seed)
    acknowledged: dict[str, bytes] = {}
    for _ in range(3):
        engine = await engine_on(disk, snapshot_after_bytes=2000)
        store = EmbeddedStore(engine)
        for path, data in acknowledged.items():
            assert (await store.get(path))[0] == data

        async def write(name: str, store: EmbeddedStore = store) -> None:
            data = bytes(chooser.randrange(200))
            try:
                await store.create(f"/{name}", data)
            except NodeExistsError:
                await store.set(f"/{name}", data)
            acknowledged[f"/{name}"] = data

        for _ in range(chooser.randrange(1, 6)):
            # Distinct names: what was asked last and not yet answered may be either way.
            names = chooser.sample([f"n{i}" for i in range(40)], 8)
            await asyncio.gather(*map(write, names))
        doubtful = [asyncio.ensure_future(write(f"late{i}")) for i in range(5)]
        for _ in range(chooser.randrange(4)):
            await asyncio.sleep(0)
        disk.is_full = True  # nothing reaches the disk from here on
        for task in doubtful:
            task.cancel()
        await asyncio.gather(*doubtful, return_exceptions=True)
        for name in [path for path in acknowledged if path.startswith("/late")]:
            del acknowledged[name]
        await engine.stop()
        disk.is_full = False
        disk.crash()


async def test_many_writes_share_one_fsync():
    disk = CrashDisk()
    engine = await engine_on(disk)
    store = EmbeddedStore(engine)
    await store.create("/first")
    before = disk.syncs
    await asyncio.gather(*(store.create(f"/{i}") for i in range(500)))
    assert disk.syncs - before <= 3
    await engine.stop()


async def test_nothing_is_answered_before_the_fsync():
    disk = CrashDisk()
    engine = await engine_on(disk)
    store, reader = EmbeddedStore(engine), EmbeddedStore(engine)
    await store.create("/a", b"old")
    heard = []
    await reader.get("/a", heard.append)
    before = disk.syncs
    writing = asyncio.ensure_future(store.set("/a", b"new"))
    await asyncio.sleep(0)
    reading = asyncio.ensure_future(reader.get("/a"))
    answer = (await reading)[0]
    assert answer == b"new"
    assert disk.syncs > before, "a reader saw what was not on disk"
    assert writing.done()
    assert len(heard) == 1
    await engine.stop()


async def test_a_full_disk_stops_the_store():
    disk = CrashDisk()
    engine = await engine_on(disk)
    failures = []
    engine.pipeline.on_failure = failures.append
    store = EmbeddedStore(engine)
    await store.create("/a")
    disk.is_full = True
    writing = asyncio.ensure_future(store.create("/b"))
    await until(lambda: failures)
    assert "No space left on device" in str(failures[0])
    assert not writing.done()
    writing.cancel()
    await engine.stop()
    disk.is_full = False
    disk.crash()
    again = await engine_on(disk)
    assert "/a" in again.tree.nodes
    assert "/b" not in again.tree.nodes
    await again.stop()


async def test_snapshots_replace_old_journals():
    disk = CrashDisk()
    engine = await engine_on(disk, snapshot_after_bytes=5000)
    store = EmbeddedStore(engine)
    for i in range(300):
        await store.create(f"/{i}", bytes(50))
        if i % 3 == 0:
            await store.delete(f"/{i}")
    await until(lambda: not engine.pipeline._snapshots.is_under_way)
    names = disk.list_dir(FOLDER)
    assert sum(name.startswith("snapshot.") for name in names) == journal_module.KEPT_SNAPSHOTS
    assert sum(name.startswith("journal.") for name in names) <= journal_module.KEPT_SNAPSHOTS + 1
    before = picture(engine.tree)
    disk.crash()
    again = await engine_on(disk)
    after = picture(again.tree)
    assert after == before
    await engine.stop()
    await again.stop()


async def test_a_snapshot_taken_amid_writes_loses_none_of_them(monkeypatch):
    """Fuzzy: nodes change, go and come back while it is being written."""
    disk = CrashDisk()
    engine = await engine_on(disk, snapshot_after_bytes=1 << 30)
    store = EmbeddedStore(engine)
    await asyncio.gather(*(store.create(f"/{i:04}", b"0") for i in range(1500)))
    # Started by hand, in small slices: by itself it may be over before anything else runs.
    monkeypatch.setattr("ottla.zk.server.snapshots.SLICE_NODES", 20)
    zxid = engine.tree.last_zxid
    engine.pipeline._journal.rotate(zxid + 1)
    snapshots = engine.pipeline._snapshots
    snapshots.begin(engine.tree, zxid)
    changes = 0
    chooser = random.Random(3)

    def touch(path: str) -> None:
        engine.set_data((), path, b"1", -1)

    def remove(path: str) -> None:
        engine.delete((), path, -1)

    def make(path: str) -> None:
        engine.create(store._session, (), path, b"", store_acl(), CreateMode.PERSISTENT)

    def grow(path: str) -> None:
        make(f"{path}/c")

    while snapshots.is_under_way:
        path = f"/{chooser.randrange(1500):04}"
        for operation in chooser.sample((touch, remove, make, grow), 4):
            try:
                operation(path)
                changes += 1
            except StoreError:
                continue
        await asyncio.sleep(0)
    await store.sync()
    assert changes > 50
    assert any(path.name.startswith("snapshot.") for path in disk.files)
    before = picture(engine.tree)
    disk.crash()
    again = await engine_on(disk)
    assert picture(again.tree) == before
    await engine.stop()
    await again.stop()


async def test_an_unreadable_snapshot_falls_back_to_the_one_before():
    disk = CrashDisk()
    engine = await engine_on(disk, snapshot_after_bytes=3000)
    store = EmbeddedStore(engine)
    for i in range(200):
        await store.create(f"/{i}", bytes(50))
    await until(lambda: not engine.pipeline._snapshots.is_under_way)
    before = picture(engine.tree)
    await engine.stop()
    newest = max(path for path in disk.files if path.name.startswith("snapshot."))
    disk.files[newest].now[40] ^= 1
    again = await engine_on(disk)
    assert picture(again.tree) == before
    await again.stop()


async def test_damage_in_an_older_journal_is_not_passed_over():
    disk = CrashDisk()
    journal = journal_module.Journal(disk, FOLDER)  # type: ignore[arg-type]
    journal.load()
    for zxid in (1, 2):
        journal.append(zxid, 0, [CreateTxn(f"/{zxid}", None, store_acl(), 0, zxid)])
    journal.write(journal.take())
    journal.rotate(3)
    older = FOLDER / f"journal.{1:016x}"
    disk.files[older].now[40] ^= 1
    with pytest.raises(DamagedFile):
        journal_module.Journal(disk, FOLDER).load()  # type: ignore[arg-type]
    disk.remove(older)
    with pytest.raises(DamagedFile, match="are missing"):
        journal_module.Journal(disk, FOLDER).load()  # type: ignore[arg-type]


def test_a_foreign_file_is_refused():
    disk = CrashDisk()
    disk.open(FOLDER / f"journal.{1:016x}").append(b"something else entirely")
    with pytest.raises(DamagedFile):
        journal_module.Journal(disk, FOLDER).load()  # type: ignore[arg-type]


def test_a_crash_right_after_making_the_file_is_harmless():
    disk = CrashDisk()
    disk.open(FOLDER / f"journal.{1:016x}")
    journal = journal_module.Journal(disk, FOLDER)  # type: ignore[arg-type]
    assert journal.load().last_zxid == 0
    journal.append(1, 0, [CreateTxn("/a", None, store_acl(), 0, 1)])
    journal.write(journal.take())
    assert "/a" in journal_module.Journal(disk, FOLDER).load().nodes  # type: ignore[arg-type]


@pytest.mark.parametrize("cut", range(0, 60, 3))
def test_a_torn_record_is_cut_off_and_overwritten(cut):
    disk = CrashDisk()
    journal = journal_module.Journal(disk, FOLDER)  # type: ignore[arg-type]
    journal.load()
    journal.append(1, 5, [CreateTxn("/a", b"x", store_acl(), 0, 1)])
    journal.write(journal.take())
    torn = records.encode_record(2, 6, [CreateTxn("/lost", b"y", store_acl(), 0, 2)])[: cut + 1]
    path = FOLDER / f"journal.{1:016x}"
    end = journal._position
    disk.files[path].now[end : end + len(torn)] = torn
    again = journal_module.Journal(disk, FOLDER)  # type: ignore[arg-type]
    tree = again.load()
    assert "/a" in tree.nodes
    assert "/lost" not in tree.nodes
    again.append(2, 7, [CreateTxn("/b", b"z", store_acl(), 0, 2)])
    again.write(again.take())
    final = journal_module.Journal(disk, FOLDER).load()  # type: ignore[arg-type]
    assert sorted(final.nodes) == [
        "/",
        "/a",
        "/b",
        "/zookeeper",
        "/zookeeper/config",
        "/zookeeper/quota",
    ]


async def test_without_fsync_nothing_is_synced(tmp_path):
    disk = CrashDisk()
    engine = await engine_on(disk, fsync=False)
    before = disk.syncs
    await EmbeddedStore(engine).create("/a")
    assert disk.syncs == before
    await engine.stop()
    again = await engine_on(disk, fsync=False)
    assert "/a" in again.tree.nodes
    await again.stop()


async def test_missing_nodes_stay_missing():
    disk = CrashDisk()
    engine = await engine_on(disk)
    store = EmbeddedStore(engine)
    with pytest.raises(NoNodeError):
        await store.set("/none", b"")
    assert not engine.pipeline.has_pending, "a refused write is not logged"
    await engine.stop()
