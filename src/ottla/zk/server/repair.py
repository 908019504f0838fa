"""`ottla zookeeper --repair`: goes on with what can still be read of a damaged store.

Transactions are absolute, so those behind a damaged place can be applied without the ones in it:
what is missing then is what the unreadable writes did, and nodes whose parents they made.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from ottla.runtime import Disk
from ottla.zk.paths import parent_of
from ottla.zk.server import records
from ottla.zk.server.recovery import JOURNAL_PREFIX, NOTE, SNAPSHOT_PREFIX, Recovery, numbered
from ottla.zk.server.tree import DeleteTxn, Tree

_ASIDE = "before-repair-"
_NAMED_PATHS = 20


def repair(disk: Disk, folder: Path) -> list[str]:
    """Blocking; whoever calls it has the folder's lock. One line for each thing that was found or
    done; none where the store is whole. Can be cut short anywhere and begun again."""
    found = Recovery(disk, folder, salvage=True).read()
    if not found.losses:
        return []
    tree = found.tree
    orphans = _drop_orphans(tree)
    told = [*found.remarks, *found.losses]
    if orphans:
        shown = ", ".join(orphans[:_NAMED_PATHS])
        more = f" and {len(orphans) - _NAMED_PATHS} more" if len(orphans) > _NAMED_PATHS else ""
        told.append(f"dropped, as nodes above them are lost: {shown}{more}")
    old = [
        name
        for prefix in (JOURNAL_PREFIX, SNAPSHOT_PREFIX)
        for _, name in numbered(disk, folder, prefix)
    ]
    aside = _set_aside(disk, folder, old)
    # One zxid is left out, so that no old file has the name of a new one.
    zxid = tree.last_zxid = tree.last_zxid + 1
    _begin_journal(disk, folder / f"{JOURNAL_PREFIX}{zxid + 1:016x}")
    # From here on a start takes the new files.
    disk.write_atomically(folder / f"{SNAPSHOT_PREFIX}{zxid:016x}", _snapshot(tree))
    disk.write_atomically(folder / NOTE, records.encode_note(zxid))
    for name in old:
        disk.remove(folder / name)
    disk.sync_dir(folder)
    return [*told, f"kept: {len(tree.nodes)} nodes; the files of before are in {aside}"]


def _drop_orphans(tree: Tree) -> list[str]:
    """Parents come before their children in the order of paths."""
    dropped = []
    for path in sorted(tree.nodes):
        if path != "/" and parent_of(path) not in tree.nodes:
            tree.apply(tree.last_zxid, 0, DeleteTxn(path), [])
            dropped.append(path)
    return dropped


def _set_aside(disk: Disk, folder: Path, names: list[str]) -> Path:
    """Copies: until the new files are there the old ones stay where they are."""
    aside = next(
        path
        for number in itertools.count(1)
        if not disk.exists(path := folder / f"{_ASIDE}{number}")
    )
    disk.make_dirs(aside)
    for name in [*names, *([NOTE] if disk.exists(folder / NOTE) else [])]:
        disk.write_atomically(aside / name, disk.read_bytes(folder / name))
    disk.sync_dir(folder)
    return aside


def _begin_journal(disk: Disk, path: Path) -> None:
    disk.write_atomically(path, records.JOURNAL_MAGIC)


def _snapshot(tree: Tree) -> bytes:
    head = records.encode_snapshot_head(tree.last_zxid, tree.sessions, len(tree.nodes))
    nodes = [records.encode_node(path, node) for path, node in tree.nodes.items()]
    return records.seal_snapshot([head, *nodes])
