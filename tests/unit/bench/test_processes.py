"""What processes cost, by /proc."""

from __future__ import annotations

import os
import subprocess
import sys

from ottla.bench import processes


def test_children_of_children_are_found_and_the_ended_are_not() -> None:
    code = (
        "import subprocess, sys\n"
        "below = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(below.pid, flush=True)\ninput()\nbelow.communicate(b'\\n')"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes, text=True)  # type: ignore[call-overload]
    grandchild = int(child.stdout.readline())
    assert {child.pid, grandchild} <= set(processes.descendants(os.getpid()))
    assert set(processes.cpu_by_process([child.pid, grandchild])) == {child.pid, grandchild}
    assert processes.peak_mb(grandchild) > 1
    assert "python" in processes.command(grandchild)
    child.communicate("\n")
    assert not {child.pid, grandchild} & set(processes.descendants(os.getpid()))
    assert processes.cpu_by_process([child.pid]) == {}
    assert (processes.peak_mb(child.pid), processes.command(child.pid)) == (0.0, "")


def test_a_new_process_counts_from_its_start() -> None:
    assert processes.cpu_since({1: 2.0, 2: 5.0}, {1: 3.0, 3: 0.5}) == 1.5
