"""Kafka 2.8.2's own tools and ours side by side: the same command line, what each says.

Kafka's tools print errors now on stdout, now on stderr, with a stack below; ours print one line on
stderr. `Answer` is what is left when those differences are taken off: exit code, the lines of the
result, and the error in one line.
"""

from __future__ import annotations

import base64
import contextlib
import io
import re
import subprocess
import time
from pathlib import Path
from typing import NamedTuple, Self

from ottla.cli import main as cli_main
from ottla.testing.java import java_command
from tests.support.peers.java_tools import eventually

# The brokers that were not asked hear of a change within this time.
SETTLE_S = 0.2
PROGRAM = Path(__file__).parents[2] / "peers" / "cli_java" / "RunTools.java"
CLASSES = {
    "topics": "kafka.admin.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "reassign": "kafka.admin.ReassignPartitionsCommand",
    "elect": "kafka.admin.LeaderElectionCommand",
    "log-dirs": "kafka.admin.LogDirsCommand",
}
_STARTS_OF_ERRORS = (
    "Error while executing topic command : ",
    "Error: ",
    "Error reassigning partition(s):",
    "Cannot execute because",
)
_EXCEPTION = re.compile(r"(?:[a-z]+\.)+(?:[a-zA-Z]+\.)*[A-Z]\w*(?:Exception|Error): ")
_TOPIC_ID = re.compile(r"TopicId: [\w-]{22}")


class Answer(NamedTuple):
    code: int
    lines: list[str]
    error: str


class JavaTools:
    """One JVM that runs Kafka's tools one after the other."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            java_command("kafka-2.8.2", str(PROGRAM)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        words = [CLASSES[command], *arguments]
        line = " ".join(base64.b64encode(word.encode()).decode() for word in words)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        code, out, err, _ = self._process.stdout.readline().split(" ")
        return int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode()

    def ask(self, command: str, *arguments: str) -> Answer:
        code, out, err = self.run(command, *arguments)
        lines = out.splitlines()
        if code == 0:
            return Answer(code, _masked(lines), "")
        begin = next(
            (i for i, line in enumerate(lines) if line.startswith(_STARTS_OF_ERRORS)), None
        )
        if begin is None:
            return Answer(code, _masked(lines), _error_on_stderr(err))
        error = lines[begin] if lines[begin].startswith("Error: ") else " ".join(lines[begin:])
        return Answer(code, _masked(lines[:begin]), _EXCEPTION.sub("", error))


def _error_on_stderr(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first.startswith("Error while executing config command with args"):
        reason = rest.partition("\n")[0]
        return f"Error while executing config command : {_EXCEPTION.sub('', reason)}"
    return _EXCEPTION.sub("", first.removeprefix('Exception in thread "main" '))


def _masked(lines: list[str]) -> list[str]:
    return [_TOPIC_ID.sub("TopicId: *", line) for line in lines]


def ask_ottla(command: str, *arguments: str) -> Answer:
    """Ours, in this process: the same code as the `ottla` command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli_main.run([command, *arguments])
    error = err.getvalue()
    assert error.count("\n") == (code != 0), "one line for a failure, none otherwise"
    return Answer(code, _masked(out.getvalue().splitlines()), error.rstrip("\n"))


_CREATE = "topics --create --topic same"
# `until N`: ask until the tool prints N lines, as the step before takes effect a moment later.
STEPS = [
    f"{_CREATE} --replica-assignment 0:1,1:2 --config retention.ms=5 --config segment.bytes=1000",
    f"{_CREATE} --partitions 1 --replication-factor 1",
    f"{_CREATE} --partitions 1 --replication-factor 1 --if-not-exists",
    "until 3 topics --describe --topic same",
    "topics --describe --topic same --topics-with-overrides",
    "topics --describe --topic same --under-replicated-partitions",
    "topics --describe --topic same --unavailable-partitions",
    "topics --describe --topic same --under-min-isr-partitions",
    f"{_CREATE}-wide --partitions 1 --replication-factor 4",
    f"{_CREATE}! --partitions 1 --replication-factor 1",
    f"{_CREATE}.x --partitions 1 --replication-factor 1",
    f"{_CREATE}_x --partitions 1 --replication-factor 1",
    f"{_CREATE}-ids --replica-assignment 0:7",
    "topics --alter --topic same --partitions 3 --replica-assignment 0:1,1:2,2:0",
    "until 4 topics --describe --topic same",
    "topics --alter --topic same --partitions 2",
    "topics --alter --topic same --partitions 3",
    "topics --alter --topic same --partitions 5 --replica-assignment 0:1,1:2,2:0,0:1",
    "topics --alter --topic same --partitions 4 --replica-assignment 0:1,1:2,2:0,9:1",
    "topics --alter --topic none --partitions 4",
    "configs --describe --topic same",
    "configs --describe --topic same --all",
    "configs --alter --topic same --add-config retention.ms=6,cleanup.policy=[compact,delete]",
    "until 4 configs --describe --topic same",
    "configs --alter --topic same --delete-config cleanup.policy,segment.bytes",
    "until 2 configs --describe --topic same",
    "configs --alter --topic same --delete-config flush.ms",
    "configs --alter --topic same --add-config retention.ms=x",
    "configs --alter --topic same --add-config nope=1",
    "configs --alter --topic none --add-config retention.ms=1",
    "configs --describe --topic none",
    "configs --describe --entity-type brokers",
    "elect --election-type preferred --topic same --partition 0",
    "elect --election-type unclean --topic same --partition 0",
    "elect --election-type preferred --all-topic-partitions",
    "elect --election-type preferred --topic none --partition 0",
    "reassign --list",
    "topics --list --topic same.*",
    "topics --delete --topic same,same.x,same-ids",
    "topics --delete --topic same",
    "topics --delete --topic same --if-exists",
    "topics --describe --topic same",
]


def java_steps(java: JavaTools, bootstrap: str) -> dict[str, Answer]:
    """Goes through STEPS with Kafka's tools on whatever cluster listens there."""
    answers = {}
    for step in STEPS:
        words = step.split()
        lines = int(words[1]) if words[0] == "until" else None
        command, *arguments = words[2:] if words[0] == "until" else words

        def ask(command: str = command, arguments: list[str] = arguments) -> Answer:
            found = java.ask(command, "--bootstrap-server", bootstrap, *arguments)
            # Configs of topics that Apache Kafka does not know.
            lines = [line for line in found.lines if not line.startswith("  ottla.")]
            return found._replace(lines=lines)

        answer = answers[step] = eventually(ask, lambda a, n=lines: n is None or len(a.lines) == n)
        if answer.code == 0 and not {"--create", "--alter", "--delete"}.isdisjoint(arguments):
            time.sleep(SETTLE_S)
    return answers
