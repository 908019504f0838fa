"""What of a run of records was written before: an attempt that was cut short is gone on with. Pure.

Records of one source partition reach each target partition in their order, whichever attempt
writes them. So those that are there are the first ones. Meanwhile retention or compaction may have
taken records out of the source, never put any in: what comes now is matched, in order, with what is
there, and the first record that is not found there is the first to be written.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.uint64]


class Alignment:
    """Of one source partition with one target partition."""

    def __init__(self, there: Hashes) -> None:
        self._there = there
        self._place = 0
        self._is_over = not len(there)

    def known(self, hashes: Hashes) -> int:
        """How many of these records, which come next, are there already."""
        if self._is_over:
            return 0
        left = self._there[self._place :]
        count = min(len(left), len(hashes))
        differing = np.flatnonzero(left[:count] != hashes[:count])
        same = int(differing[0]) if len(differing) else count
        self._place += same
        if same == len(hashes):
            return same
        return same + self._sought(hashes[same:])

    def _sought(self, hashes: Hashes) -> int:
        """One by one, past records that the source has lost."""
        for count, one in enumerate(hashes):
            found = np.flatnonzero(self._there[self._place :] == one)
            if not len(found):
                self._is_over = True
                return count
            self._place += int(found[0]) + 1
        return len(hashes)
