"""Snapshots of the tree, so that the journal need not be read from its beginning."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ottla.runtime import Runtime
from ottla.zk.server import records
from ottla.zk.server.journal import Journal
from ottla.zk.server.tree import Tree

logger = logging.getLogger(__name__)

# Nodes encoded between two turns of the event loop.
SLICE_NODES = 500


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

    @property
    def is_under_way(self) -> bool:
        return self._under_way is not None

    @property
    def is_due(self) -> bool:
        return not self.is_under_way and self._journal.bytes_since_snapshot >= self._after_bytes

    def begin(self, tree: Tree, zxid: int) -> None:
        """The journal up to `zxid` has just been closed."""
        self._under_way = asyncio.get_running_loop().create_task(self._take(tree, zxid))

    def cancel(self) -> None:
        if self._under_way is not None:
            self._under_way.cancel()
            self._under_way = None

    async def _take(self, tree: Tree, zxid: int) -> None:
        """Writes go on meanwhile: replaying the journal after `zxid` over it is harmless.

        It holds parts of these writes, so that the journal must tell the rest: with a snapshot
        ahead of the journal a power cut would leave half a multi, or a node of a session that
        nobody knows."""
        try:
            nodes = tree.nodes
            paths = list(nodes)
            parts: list[bytes] = []
            for start in range(0, len(paths), SLICE_NODES):
                for path in paths[start : start + SLICE_NODES]:
                    node = nodes.get(path)
                    if node is not None:
                        parts.append(records.encode_node(path, node))
                await asyncio.sleep(0)
            head = records.encode_snapshot_head(zxid, tree.sessions, len(parts))
            await self._until_durable(tree.last_zxid)
            await self._runtime.blocking(
                lambda: self._journal.write_snapshot(zxid, records.seal_snapshot([head, *parts]))
            )
        except OSError as error:
            # The journal still holds everything; the next one may succeed.
            logger.warning("no snapshot at %#x: %s", zxid, error)
        finally:
            self._under_way = None
