"""Every write of the store, kept in memory: what a store that starts again is held against."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ottla.zk.server.tree import Node, Tree, Txn

# Enough to see what went wrong.
MAX_DIFFERENCES = 5


class StoreMemory:
    def __init__(self) -> None:
        self._writes: list[tuple[int, int, Sequence[Txn]]] = []

    def written(self, zxid: int, time_ms: int, txns: Sequence[Txn]) -> None:
        self._writes.append((zxid, time_ms, txns))

    def restarted(self, tree: Tree) -> list[str]:
        """How a tree that was read from disk differs from what was written up to its zxid.

        What was written after it nobody ever heard of, and it has never been."""
        self._writes = [write for write in self._writes if write[0] <= tree.last_zxid]
        expected = Tree()
        for zxid, time_ms, txns in self._writes:
            for txn in txns:
                expected.apply(zxid, time_ms, txn, [])
        return list(itertools.islice(_differences(tree, expected), MAX_DIFFERENCES))


def _differences(found: Tree, expected: Tree) -> Iterator[str]:
    where = f"the store came back at zxid {found.last_zxid}"
    if found.sessions != expected.sessions:
        yield f"{where} with sessions {found.sessions} and not {expected.sessions}"
    for name in ("ephemerals", "containers", "ttls"):
        index, wanted = _sorted(getattr(found, name)), _sorted(getattr(expected, name))
        if index != wanted:
            yield f"{where} with {name} {index} and not {wanted}"
    for path in sorted(found.nodes.keys() | expected.nodes.keys()):
        node, wanted_node = found.nodes.get(path), expected.nodes.get(path)
        if _picture(node) != _picture(wanted_node):
            yield f"{where} with {path} {_picture(node)} and not {_picture(wanted_node)}"


def _sorted(index: dict[object, dict[str, None] | None]) -> dict[object, list[str]]:
    """The order in which paths came differs after a restart, and means nothing."""
    return {key: sorted(index[key] or ()) for key in sorted(index, key=str)}


def _picture(node: Node | None) -> object:
    if node is None:
        return None
    return node.data, node.acl, node.owner, node.stat(), sorted(node.children or ())
