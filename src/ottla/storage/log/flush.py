"""Making durable what a log holds at one moment; the log itself may go on meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ottla.runtime import Disk
from ottla.storage import checkpoints


class Flush(NamedTuple):
    """From `Log.begin_flush`, for `Log.end_flush` once it has run."""

    end_offset: int
    generation: int
    folder: Path
    # None where their file has them already.
    epochs: list[tuple[int, int]] | None
    paths: list[Path]

    def run(self, disk: Disk) -> None:
        """Blocking. With descriptors of its own: the log's may be closed by another owner
        meanwhile."""
        if self.epochs is not None:
            disk.write_atomically(
                self.folder / checkpoints.LEADER_EPOCHS, checkpoints.encode_epochs(self.epochs)
            )
        for path in self.paths:
            if disk.exists(path):
                file = disk.open(path, create=False)
                try:
                    file.sync()
                finally:
                    file.close()
