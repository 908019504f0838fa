"""A number that says which records came, in which order; of bounded size, whatever their count.

The hashes of the records are the digits of one large number, of which the lowest 64 bits are kept.
The number of one run of records and that of the next make the number of both, so that it can be
kept from micro-batch to micro-batch. It tells an accident; it is no defence against a forger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_BASE = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


class OrderDigest(NamedTuple):
    """Of records that have a place in one order."""

    records: int = 0
    value: int = 0

    def then(self, later: OrderDigest) -> OrderDigest:
        value = self.value * pow(_BASE, later.records, 1 << 64) + later.value
        return OrderDigest(self.records + later.records, value & _MASK)


class _Powers:
    """Of the base, as many as were ever asked for; the number of rows in a chunk is bounded."""

    def __init__(self) -> None:
        self._known = np.ones(1, np.uint64)

    def of(self, count: int) -> npt.NDArray[np.uint64]:
        """From the largest down to 1."""
        while len(self._known) < count:
            step = np.uint64(pow(_BASE, len(self._known), 1 << 64))
            self._known = np.concatenate([self._known, self._known * step])
        return self._known[:count][::-1]


_powers = _Powers()


def digest_of(hashes: npt.NDArray[np.uint64]) -> OrderDigest:
    return OrderDigest(len(hashes), int((hashes * _powers.of(len(hashes))).sum(dtype=np.uint64)))


def by_group(
    groups: npt.NDArray[np.int64],
) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """Each group that has rows, with the places of its rows in their order."""
    if not len(groups):
        return
    # numpy sorts 16-bit numbers by radix, several times faster.
    narrow = groups.astype(np.uint16) if int(groups.max()) < 1 << 16 else groups
    order = np.argsort(narrow, kind="stable")
    ordered = groups[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for places in np.split(order, cuts):
        yield int(groups[places[0]]), places
