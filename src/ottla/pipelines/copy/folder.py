"""The checkpoint of a copy: a folder on the driver's machine that one process has at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.pipelines.copy import state as states
from ottla.pipelines.copy.state import BadState, CopyState, FinalConfigs, Finished, UnderWay

if TYPE_CHECKING:
    from ottla.runtime import Disk, HeldLock

T = TypeVar("T")

_STATE = "copy.json"
_UNDER_WAY = "under-way.json"
_CONFIGS = "configs.json"
_FINISHED = "finished.json"


class CopyFolder:
    """Written before and after every micro-batch, each time whole or not at all."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._lock: HeldLock | None = None

    def open(self) -> None:
        """Raises DirInUse where another process copies with it."""
        self._disk.make_dirs(self.path)
        self._lock = self._disk.lock(self.path)

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def state(self) -> CopyState | None:
        """Raises BadState for one that cannot be read."""
        data = self._read(_STATE)
        return None if data is None else self._decoded(_STATE, data, states.decode)

    def under_way(self, state: CopyState) -> UnderWay | None:
        """The micro-batch that had begun and is not in the state."""
        data = self._read(_UNDER_WAY)
        if data is None:
            return None
        found = self._decoded(_UNDER_WAY, data, states.decode_under_way)
        return found if found.batch == state.batch + 1 else None

    def write_state(self, state: CopyState) -> None:
        self._disk.write_atomically(self.path / _STATE, states.encode(state))

    def write_under_way(self, under_way: UnderWay) -> None:
        self._disk.write_atomically(self.path / _UNDER_WAY, states.encode_under_way(under_way))

    def configs(self) -> FinalConfigs | None:
        """Those that the target is to have in the end, where they were noted."""
        data = self._read(_CONFIGS)
        return None if data is None else self._decoded(_CONFIGS, data, states.decode_configs)

    def write_configs(self, final: FinalConfigs) -> None:
        self._disk.write_atomically(self.path / _CONFIGS, states.encode_configs(final))

    def begin_anew(self, final: FinalConfigs) -> None:
        """A copy that has not begun yet. At every moment there are configs, if there were any: the
        target may have others by now, for the time of the copy, and nobody else knows these."""
        self._remove(_UNDER_WAY, _STATE)
        self.write_configs(final)

    def finish(self, finished: Finished) -> None:
        """As `forget`, and whoever asks for the same again can be told that it is done."""
        self._disk.write_atomically(self.path / _FINISHED, states.encode_finished(finished))
        self.forget()

    def finished(self) -> Finished | None:
        data = self._read(_FINISHED)
        return None if data is None else self._decoded(_FINISHED, data, states.decode_finished)

    def forget(self) -> None:
        """There is nothing to go on with any more."""
        # The configs last: whoever finds a state goes on, and gives the target what is noted here.
        # What is under way first: it would be taken for that of the next state.
        self._remove(_UNDER_WAY, _STATE, _CONFIGS)
        with suppress(OSError):
            self._disk.sync_dir(self.path)

    def _remove(self, *names: str) -> None:
        for name in names:
            self._disk.remove(self.path / name)

    def _read(self, name: str) -> bytes | None:
        path = self.path / name
        return self._disk.read_bytes(path) if self._disk.exists(path) else None

    def _decoded(self, name: str, data: bytes, decode: Callable[[bytes], T]) -> T:
        try:
            return decode(data)
        except BadState as error:
            raise BadState(f"{self.path / name} {error}") from None
