"""What a cluster in the background prints: one file that stays small."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# In a process of its own: it gives away its stdout and stderr.
_PRINTS = """
import os, sys
from pathlib import Path
from ottla.process import detached

detached.MAX_LOG_BYTES = 1000
background = detached.Background(-1)
background.print_to(Path(sys.argv[1]))
for number in range(500):
    print(f"line {number}", flush=True)
    background.keep_small()
os.write(2, b"the end\\n")
"""


def test_the_file_begins_anew_and_keeps_its_last_lines_beside_it(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "up.log"
    done = subprocess.run([sys.executable, "-c", _PRINTS, str(log)], env=os.environ, check=True)
    assert done.returncode == 0
    now, before = log.read_text(), log.with_name("up.log.1").read_text()
    assert len(now) < 1100 and len(before) <= 1000
    lines = (before + now).splitlines()[1:]
    assert lines[-1] == "the end"
    numbers = [int(line.removeprefix("line ")) for line in lines[:-1]]
    assert numbers == list(range(numbers[0], 500))
