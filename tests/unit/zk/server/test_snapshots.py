"""When a snapshot is due, and what it leaves in the folder."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

from ottla.runtime import Runtime, SystemNetwork, system_runtime
from ottla.zk.server.journal import Journal
from ottla.zk.server.snapshots import Snapshots
from ottla.zk.server.tree import CreateSessionTxn, Tree
from tests.support.zk.crash_disk import CrashDisk
from tests.support.zk.polling import until

FOLDER = Path("/store")


async def test_one_is_due_after_so_much_journal_and_not_while_another_is_taken():
    disk = CrashDisk()
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)
    journal = Journal(disk, FOLDER)
    tree = journal.load()
    snapshots = Snapshots(runtime, journal, after_bytes=100)
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
    write(range(20, 40))
    assert not snapshots.is_due, "one is under way"
    await until(lambda: not snapshots.is_under_way)
    assert snapshots.is_due
    again: Tree = Journal(disk, FOLDER).load()
    assert again.sessions == tree.sessions
    assert f"snapshot.{19:016x}" in disk.list_dir(FOLDER)
    journal.close()


async def test_one_that_is_cancelled_is_not_written():
    disk = CrashDisk()
    runtime = Runtime(system_runtime().clock, random.Random(1), SystemNetwork(), disk)
    journal = Journal(disk, FOLDER)
    snapshots = Snapshots(runtime, journal, after_bytes=0)
    snapshots.begin(journal.load(), 0)
    snapshots.cancel()
    await asyncio.sleep(0)
    assert not snapshots.is_under_way
    assert not any(name.startswith("snapshot.") for name in disk.list_dir(FOLDER))
    journal.close()
