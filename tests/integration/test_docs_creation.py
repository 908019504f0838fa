"""docs/creation.md is true: its commands are run on a new cluster and print what it shows.

What differs from run to run is made equal on both sides: times, topic ids, who is the controller,
the order of what brokers answer.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import ProcessCluster

PAGE = Path(__file__).parents[2] / "docs" / "creation.md"
PATIENCE_S = 30.0


def steps(page: str) -> list[tuple[str, list[str]]]:
    """The commands of the page, each with the lines it prints."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.S | re.M):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                found[-1][1].append(line)
    return found


def equal_parts(lines: list[str], folder: Path) -> list[str]:
    text = "\n".join(lines).replace(str(folder) + "/", "")
    for pattern, name in (
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d{3}", "TIME"),
        (r"(topic_id\":\"|TopicId: )[\w-]{22}", r"\1ID"),
        (r"Controller id=\d", "Controller id=N"),
        (r"(correlationId|correlation id|from controller) \d+", r"\1 N"),
    ):
        text = re.sub(pattern, name, text)
    listed = text.splitlines()
    told = [line for line in listed if " answer " not in line]
    return told + sorted(line for line in listed if " answer " in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the reader of the page stands, with the commands on the PATH and the ports of a run."""
    here = tmp_path_factory.mktemp("reader")
    commands = here / "bin"
    commands.mkdir()
    script = commands / "ottla"
    command = shlex.join([sys.executable, "-m", "ottla"])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    overrides = {"ottla.lifecycle.topic.enable": "true"}
    with ProcessCluster(brokers=3, data=here / "ottla-data", overrides=overrides) as cluster:
        (commands / "bootstrap").write_text(cluster.bootstrap_servers)
        (commands / "zookeeper").write_text(cluster.zookeeper)
        yield here


def run(command: str, folder: Path) -> list[str]:
    commands = folder / "bin"
    address = (commands / "zookeeper").read_text()
    environment = {
        **os.environ,
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "OTTLA_BOOTSTRAP_SERVER": (commands / "bootstrap").read_text(),
    }
    done = subprocess.run(
        command.replace("ottla zk get", f"ottla zk get --zookeeper {address}"),
        shell=True,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stderr == "", done.stderr
    return done.stdout.splitlines()


def test_the_page_shows_what_happens(folder: Path) -> None:
    followed = steps(PAGE.read_text())
    assert len(followed) >= 9, "the page has its commands"
    for command, shown in followed:
        expected = equal_parts(shown, folder)
        deadline = time.monotonic() + PATIENCE_S
        # Events are published a moment later than they happen.
        while (printed := equal_parts(run(command, folder), folder)) != expected:
            if time.monotonic() > deadline or not command.startswith("ottla events"):
                assert printed == expected, command
