"""The ends of sessions that own many nodes.

A session ends in one write, which names its nodes. Where these are many they go in several writes,
a slice at a time, and the last one ends the session: no turn is too long and no record of the
journal too large. A crash in between leaves a session that nobody comes back to, and that expires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ottla.zk.server.tree import CloseSessionTxn, DeleteTxn, Txn
from ottla.zk.server.turns import Turns

# Of the nodes of a session that go in one write.
SLICE_NODES = 500
SLICE_CHARS = 1 << 18


def first_slice(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    chars = 0
    for path in paths:
        chars += len(path)
        if found and (len(found) >= SLICE_NODES or chars > SLICE_CHARS):
            break
        found.append(path)
    return found


class Endings:
    """Sessions on their way out, in the order in which they ended."""

    def __init__(
        self,
        turns: Turns,
        owned: Callable[[int], dict[str, None]],
        commit: Callable[[Sequence[Txn]], None],
        monotonic_ms: Callable[[], float],
    ) -> None:
        """`owned` are the nodes of a session now; `commit` makes one write of transactions."""
        self._turns = turns
        self._owned = owned
        self._commit = commit
        self._monotonic_ms = monotonic_ms
        self._under_way: dict[int, Callable[[], None] | None] = {}

    def begin(self, session_id: int, done: Callable[[], None] | None = None) -> None:
        """`done` is called when the session has ended: at once, where it owns little."""
        owned = self._owned(session_id)
        paths = first_slice(owned)
        if len(paths) < len(owned):
            self._under_way[session_id] = done
            self._turns.wait(self)
            return
        self._commit([CloseSessionTxn(session_id, tuple(paths))])
        if done is not None:
            done()

    def finish(self) -> None:
        """Everything that is under way, now."""
        while self._under_way:
            self._step()

    def go_on(self, until_ms: float) -> None:
        while self._under_way:
            self._step()
            if self._monotonic_ms() >= until_ms:
                break
        if self._under_way:
            self._turns.wait(self)

    def _step(self) -> None:
        session_id, done = next(iter(self._under_way.items()))
        owned = self._owned(session_id)
        paths = first_slice(owned)
        if len(paths) < len(owned):
            self._commit([DeleteTxn(path) for path in paths])
            return
        del self._under_way[session_id]
        self._commit([CloseSessionTxn(session_id, tuple(paths))])
        if done is not None:
            done()
