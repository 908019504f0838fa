"""The walk over records in the form that is in force; `record_walk.py` is the oracle."""

from __future__ import annotations

from mmap import mmap
from typing import Any, Protocol

from ottla.wire import native
from ottla.wire.record_walk import BadRecord, Flaw, RecordWalk


class Walk(Protocol):
    """What both forms have; see `RecordWalk`."""

    @property
    def newest(self) -> int: ...
    @property
    def oldest(self) -> int: ...
    @property
    def is_in_order(self) -> bool: ...
    @property
    def is_keyless(self) -> bool: ...

    def advance(self, most: int) -> bool: ...


class NativeWalk:
    """A walk that native code makes; nobody may change the records meanwhile."""

    __slots__ = ("_walk",)

    def __init__(self, code: Any, plain: bytes | mmap, count: int, base_timestamp: int) -> None:
        self._walk = code.RecordWalk(plain, count, base_timestamp)

    def advance(self, most: int) -> bool:
        """Goes on by so many records or headers; True at the end. Raises BadRecord."""
        state = self._walk.advance(most)
        if state < 0:
            flaw, number, left = self._walk.bad
            raise BadRecord(Flaw(flaw), number, left)
        return bool(state)

    @property
    def newest(self) -> int:
        return int(self._walk.newest)

    @property
    def oldest(self) -> int:
        return int(self._walk.oldest)

    @property
    def is_in_order(self) -> bool:
        return bool(self._walk.is_in_order)

    @property
    def is_keyless(self) -> bool:
        return bool(self._walk.is_keyless)


def walk_over(
    plain: bytes | mmap,
    count: int,
    base_timestamp: int = 0,
    claimed_newest: int = 0,
    *,
    wants_oldest: bool = False,
) -> Walk:
    """A walk over `count` records; the arguments are those of `RecordWalk`."""
    if native.code is not None:
        return NativeWalk(native.code, plain, count, base_timestamp)
    return RecordWalk(plain, count, base_timestamp, claimed_newest, wants_oldest=wants_oldest)
