"""Which partition of the target each record of a source partition goes to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.spark.sink.key_hashes import key_hashes
from ottla.topics.partitioners import Partitioner


class Placement(NamedTuple):
    """Without a partitioner every record stays in its partition."""

    partitioner: Partitioner | None
    source_partitions: int
    target_partitions: int

    def places(self, keys: pa.Array, source: int) -> Places:
        """Records whose place a client chooses freely all go to one partition, so that they keep
        their order."""
        own = source % self.target_partitions
        if self.partitioner is None:
            return Places(np.full(len(keys), own, np.int64), 0)
        hashes = key_hashes(self.partitioner, keys)
        targets = hashes % self.target_partitions
        elsewhere = hashes % self.source_partitions != source
        free = self._free(keys)
        if free is not None:
            targets[free] = own
            elsewhere[free] = False
        return Places(targets, int(np.count_nonzero(elsewhere)))

    def _free(self, keys: pa.Array) -> npt.NDArray[np.bool_] | None:
        free = None
        if keys.null_count:
            free = keys.is_null().to_numpy(zero_copy_only=False)
        if self.partitioner is Partitioner.CONSISTENT_RANDOM:
            bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset :][: len(keys) + 1]
            empty = np.diff(bounds) == 0
            free = empty if free is None else free | empty
        return free


class Places(NamedTuple):
    """`misplaced` records are not where the partitioner would have put them in the source: it is
    another one, or the source has grown. A key's records may lie in two partitions then."""

    targets: npt.NDArray[np.int64]
    misplaced: int
