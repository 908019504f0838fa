"""What the processes below this one cost, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Children, their children and so on."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat(int(path.parent.name))
        if fields is not None:
            parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def cpu_by_process(pids: Iterable[int]) -> dict[int, float]:
    """User and system seconds so far of those that are alive."""
    found = {}
    for pid in pids:
        fields = _stat(pid)
        if fields is not None:
            found[pid] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return found


def cpu_since(before: dict[int, float], after: dict[int, float]) -> float:
    """What was used in between. A process that ended meanwhile takes its share along: nobody is
    told about the workers of Spark's daemon, which does not wait for them."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def peak_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _stat(pid: int) -> list[str] | None:
    """The fields after the name, which may have spaces in it; None where the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
