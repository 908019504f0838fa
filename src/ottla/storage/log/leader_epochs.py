"""Which leader epoch wrote from which offset on (LeaderEpochFileCache, KIP-101)."""

from __future__ import annotations

from bisect import bisect_right

UNKNOWN = (-1, -1)


class LeaderEpochs:
    """(epoch, start offset), both increasing.

    `dirty` says that the file behind lags; the log writes it before its recovery point passes,
    since recovery rebuilds only the epochs of batches after that point.
    """

    __slots__ = ("_epochs", "_starts", "dirty")

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._epochs = [epoch for epoch, _ in entries or ()]
        self._starts = [start for _, start in entries or ()]
        self.dirty = False

    def entries(self) -> list[tuple[int, int]]:
        return list(zip(self._epochs, self._starts, strict=True))

    @property
    def latest(self) -> int:
        return self._epochs[-1] if self._epochs else -1

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch or a new leadership begins; entries that contradict it go (newest wins)."""
        epochs, starts = self._epochs, self._starts
        if epochs and epochs[-1] == epoch and starts[-1] <= start_offset:
            return
        if epoch < 0:
            return
        while epochs and (epochs[-1] >= epoch or starts[-1] >= start_offset):
            epochs.pop()
            starts.pop()
        epochs.append(epoch)
        starts.append(start_offset)
        self.dirty = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetsForLeaderEpoch answers; (-1, -1) where unknown."""
        epochs, starts = self._epochs, self._starts
        if epoch < 0 or not epochs or epoch > epochs[-1]:
            return UNKNOWN
        if epoch == epochs[-1]:
            return epoch, log_end_offset
        slot = bisect_right(epochs, epoch)
        if slot == 0:
            return epoch, starts[0]
        return epochs[slot - 1], starts[slot]

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote the offset; -1 where unknown."""
        slot = bisect_right(self._starts, offset)
        return self._epochs[slot - 1] if slot else -1

    def truncate_from_end(self, end_offset: int) -> None:
        while self._starts and self._starts[-1] >= end_offset:
            self._starts.pop()
            self._epochs.pop()
            self.dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """The entry that covers `start_offset` is kept and now starts there."""
        slot = bisect_right(self._starts, start_offset)
        if slot and (slot > 1 or self._starts[0] != start_offset):
            del self._epochs[: slot - 1]
            del self._starts[: slot - 1]
            self._starts[0] = start_offset
            self.dirty = True

    def become(self, other: LeaderEpochs) -> None:
        """Takes over the entries of a copied log."""
        if self.entries() != other.entries():
            self._epochs, self._starts = list(other._epochs), list(other._starts)
            self.dirty = True

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.dirty = True


class RetoldEpochs:
    """The epochs from an offset on, told again by the batches there in order.

    Batches are the better word: an epoch that is noted without one, or was cut off since, would
    make those before it look newer. But where compaction took the first batches of an epoch, or
    all of them, only the note knows where it began; with a later start followers would keep what
    an older leader wrote there.
    """

    __slots__ = ("_epochs", "_noted", "_reached")

    def __init__(self, epochs: LeaderEpochs, from_offset: int) -> None:
        # The next one to come last.
        self._noted = [entry for entry in epochs.entries() if entry[1] >= from_offset][::-1]
        self._epochs = epochs
        self._reached = from_offset
        epochs.truncate_from_end(from_offset)

    def add(self, epoch: int, base_offset: int, next_offset: int) -> None:
        """A batch; what is noted for the gap before it holds if the epochs still ascend."""
        while self._noted and self._noted[-1][1] < base_offset:
            noted, start = self._noted.pop()
            if start >= self._reached and self._epochs.latest < noted <= epoch:
                self._epochs.assign(noted, start)
        self._epochs.assign(epoch, base_offset)
        self._reached = next_offset
