"""When a process that died is started again: soon at first, rarer while it goes on dying. Pure."""

from __future__ import annotations

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
# One that lived this long did not die of its start.
SOUND_S = 60.0


class Restarts:
    """Who is to be started again, and when. Times are of one monotonic clock, in seconds."""

    def __init__(self) -> None:
        self._pauses: dict[str, float] = {}
        self._due: dict[str, float] = {}

    def plan(self, name: str, *, started_s: float, now_s: float) -> float:
        """After its end; returns how long it takes until it is due."""
        last = self._pauses.get(name)
        is_sound = last is None or now_s - started_s >= SOUND_S
        pause = FIRST_PAUSE_S if is_sound or last is None else min(2 * last, MAX_PAUSE_S)
        self._pauses[name] = pause
        self._due[name] = now_s + pause
        return pause

    def take_due(self, now_s: float) -> list[str]:
        due = [name for name, at_s in self._due.items() if at_s <= now_s]
        for name in due:
            del self._due[name]
        return due

    def next_s(self) -> float | None:
        """When somebody is due next; None: nobody is."""
        return min(self._due.values(), default=None)
