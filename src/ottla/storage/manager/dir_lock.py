"""The `.lock` of a data folder: one broker at a time (FileLock)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Protocol

from ottla.errors import OttlaError
from ottla.storage.checkpoints import LOCK


class DirInUse(OttlaError):
    """Another process has the folder."""


class HeldLock(Protocol):
    def release(self) -> None: ...


class FlockedDir:
    """An advisory lock that ends with the process, also when it is killed."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise DirInUse(
                f"Failed to acquire lock on file {LOCK} in {folder}. A Kafka instance in another "
                "process or thread is using this directory."
            ) from None

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
