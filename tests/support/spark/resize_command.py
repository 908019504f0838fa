"""`ottla resize` as a process of its own, and what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

FENCED = re.compile(r"took no records for ([\d.]+) s")
AGAIN = re.compile(r"up to ([\d,]+) records read again")
COPIED = re.compile(r"([\d,]+) records in ([\d.]+) s \(([\d,]+) records/s\)")


class Said(NamedTuple):
    """`again` records at most are read a second time, by all groups together."""

    fenced_s: float
    again: int
    records: int
    seconds: float

    @classmethod
    def of(cls, text: str) -> Said:
        fenced, copied = FENCED.search(text), COPIED.search(text)
        assert fenced is not None and copied is not None, text
        again = sum(_number(found) for found in AGAIN.findall(text))
        return cls(float(fenced[1]), again, _number(copied[1]), float(copied[2]))


def start(servers: str, topic: str, folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """Its checkpoints, and what it says on stderr (`resize.log`), are in the folder."""
    command = [sys.executable, "-m", "ottla", "resize", topic, "--bootstrap-server", servers]
    command += [*arguments, "--checkpoints", str(folder / "checkpoints"), "--master", "local[2]"]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "resize.log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
        )


def run(servers: str, topic: str, folder: Path, *arguments: str, timeout_s: float) -> Said:
    process = start(servers, topic, folder, *arguments)
    out, _ = process.communicate(timeout=timeout_s)
    assert process.returncode == 0, f"{out}\n{(folder / 'resize.log').read_text()[-3000:]}"
    return Said.of(out)


def _number(text: str) -> int:
    return int(text.replace(",", ""))
