"""Aborted transactions of one segment, as Kafka's `.txnindex` file holds them (TransactionIndex).

A segment without aborted transactions has no such file. Entries stand in the order of their
markers; each is written when its marker is appended and rebuilt with the segment's other indexes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ottla.storage.segment.index import IndexDamaged

_ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = _ENTRY.size
_VERSION = 0


class AbortedTransaction(NamedTuple):
    """`last_offset` is the marker's; `last_stable_offset` is where readers get to with it."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode(entries: Iterable[AbortedTransaction]) -> bytes:
    return b"".join([_ENTRY.pack(_VERSION, *entry) for entry in entries])


def decode(data: bytes) -> list[AbortedTransaction]:
    """Raises IndexDamaged for anything that a broker would not have written."""
    if len(data) % ENTRY_BYTES:
        raise IndexDamaged(f"{len(data)} bytes are no multiple of {ENTRY_BYTES}")
    entries: list[AbortedTransaction] = []
    last_offset = -1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        # A later version may only add meaning to what is there already.
        if version < 0 or entry.last_offset <= last_offset or entry.first_offset < 0:
            raise IndexDamaged(f"{entry} of version {version} after offset {last_offset}")
        last_offset = entry.last_offset
        entries.append(entry)
    return entries


def collect(
    entries: Iterable[AbortedTransaction],
    offset: int,
    upper_bound: int,
    found: list[AbortedTransaction],
) -> bool:
    """Adds what a reader of [offset, upper_bound) must know; True if no later entry can matter
    (TransactionIndex.collectAbortedTxns)."""
    for entry in entries:
        if entry.last_offset >= offset and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            return True
    return False
