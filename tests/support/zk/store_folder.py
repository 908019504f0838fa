"""A store's folder on a disk in memory, written batch by batch, and ways to damage it."""

from __future__ import annotations

from pathlib import Path

from ottla.metadata.store import OPEN_ACL
from ottla.zk.server import records
from ottla.zk.server.journal import Journal
from ottla.zk.server.tree import CreateTxn, Tree
from tests.support.zk.crash_disk import CrashDisk

FOLDER = Path("/store")


class StoreFolder:
    """`starts[zxid]` is where the write begins in its journal, `/n<zxid>` what it makes."""

    def __init__(self) -> None:
        self.disk = CrashDisk()
        self.journal = self.open()
        self.tree = self.journal.load()
        self.starts: dict[int, int] = {}

    def open(self) -> Journal:
        return Journal(self.disk, FOLDER)  # type: ignore[arg-type]

    def write(self, *sizes: int, parent: str = "") -> None:
        """One batch, a write of so many bytes for each number."""
        for size in sizes:
            zxid = self.tree.last_zxid + 1
            data = bytes(1 + i % 250 for i in range(size))
            txn = CreateTxn(f"{parent}/n{zxid}", data, OPEN_ACL, 0, zxid)
            self.journal.append(zxid, 5, [txn])
            self.tree.apply(zxid, 5, txn, [])
        first = self.tree.last_zxid - len(sizes) + 1
        self.journal.write(self.journal.take())
        self._locate(first)

    def _locate(self, first: int) -> None:
        data = self.newest_data()
        for zxid in range(first, self.tree.last_zxid + 1):
            wanted = zxid.to_bytes(8, "big") + (5).to_bytes(8, "big")
            self.starts[zxid] = bytes(data).index(wanted) - 8

    def snapshot(self) -> None:
        zxid = self.tree.last_zxid
        self.journal.rotate(zxid + 1)
        nodes = [records.encode_node(path, node) for path, node in self.tree.nodes.items()]
        head = records.encode_snapshot_head(zxid, self.tree.sessions, len(nodes))
        file = self.journal.new_snapshot(zxid)
        for piece in (head, *nodes):
            file.write(piece)
        file.finish()
        self.journal.drop_useless()

    def path(self, first_zxid: int, kind: str = "journal") -> Path:
        return FOLDER / f"{kind}.{first_zxid:016x}"

    def newest_data(self) -> bytearray:
        """The bytes of the newest journal, to be changed at will."""
        journals = [path for path in self.disk.files if path.name.startswith("journal.")]
        return self.disk.files[max(journals)].now

    def flip(self, position: int) -> None:
        self.newest_data()[position] ^= 1

    def names(self, tree: Tree) -> list[str]:
        """The nodes of writes, as numbers of these."""
        found = (path.rpartition("/")[2] for path in tree.nodes)
        return sorted((name for name in found if name.startswith("n")), key=lambda n: int(n[1:]))

    def picture(self) -> dict[Path, bytes]:
        return {path: bytes(content.now) for path, content in self.disk.files.items()}
