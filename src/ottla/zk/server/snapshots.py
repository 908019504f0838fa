"""Snapshots of the tree, so that the journal need not be read from its beginning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from ottla.runtime import Runtime
from ottla.zk.server import records
from ottla.zk.server.journal import Journal, SnapshotFile
from ottla.zk.server.tree import Tree

logger = logging.getLogger(__name__)

# Nodes encoded between two turns of the event loop, and bytes of them.
SLICE_NODES = 500
SLICE_BYTES = 1 << 18
# What is handed to the disk at once.
PIECE_BYTES = 1 << 20


class Snapshots:
    """One at a time, after every `after_bytes` of journal."""

    def __init__(
        self,
        runtime: Runtime,
        journal: Journal,
        after_bytes: int,
        until_durable: Callable[[int], Awaitable[None]],
    ) -> None:
        """`until_durable` waits for a write, by its zxid, to be in the journal."""
        self._until_durable = until_durable
        self._runtime = runtime
        self._journal = journal
        self._after_bytes = after_bytes
        self._under_way: asyncio.Task[None] | None = None
        self._last_bytes = 0

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    @property
    def is_due(self) -> bool:
        """Where the last one was large the journal may grow as large: who changes one node over
        and over does not make the store write all of them each time."""
        due_bytes = max(self._after_bytes, self._last_bytes)
        return not self.is_under_way and self._journal.bytes_since_snapshot >= due_bytes

    def begin(self, tree: Tree, zxid: int) -> None:
        """The journal up to `zxid` has just been closed."""
        self._under_way = asyncio.get_running_loop().create_task(self._take(tree, zxid))

    def cancel(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None

    async def _take(self, tree: Tree, zxid: int) -> None:
        """Writes go on meanwhile: replaying the journal after `zxid` over it is harmless, and lets
        those nodes go that are deleted before they are written here.

        It holds parts of these writes, so that the journal must tell the rest: with a snapshot
        ahead of the journal a power cut would leave half a multi, or a node of a session that
        nobody knows."""
        file = self._journal.new_snapshot(zxid)
        try:
            paths, nodes = list(tree.nodes), list(tree.nodes.values())
            parts = [records.encode_snapshot_head(zxid, tree.sessions, len(nodes))]
            held = sliced = nodes_sliced = 0
            for path, node in zip(paths, nodes, strict=True):
                parts.append(records.encode_node(path, node))
                held += len(parts[-1])
                sliced += len(parts[-1])
                nodes_sliced += 1
                if held >= PIECE_BYTES:
                    await self._runtime.blocking(partial(file.write, b"".join(parts)))
                    parts.clear()
                    held = sliced = nodes_sliced = 0
                elif sliced >= SLICE_BYTES or nodes_sliced >= SLICE_NODES:
                    await asyncio.sleep(0)
                    sliced = nodes_sliced = 0
            await self._until_durable(tree.last_zxid)
            await self._runtime.blocking(partial(self._finish, file, b"".join(parts)))
            self._last_bytes = file.size
        except OSError as error:
            # The journal still holds everything; the next one may succeed.
            logger.warning("no snapshot at %#x: %s", zxid, error)
            file.close()
        finally:
            # One that is cancelled may still be written to, by the thread that has it.
            self._under_way = None

    def _finish(self, file: SnapshotFile, piece: bytes) -> None:
        file.write(piece)
        file.finish()
        self._journal.drop_useless()
