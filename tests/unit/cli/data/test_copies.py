"""What `ottla clone` and `ottla resize` share: signals, and a Spark that does not start."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.data import copies
from ottla.cli.main import cli
from ottla.errors import OttlaError
from ottla.spark.launch import session

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Work:
    """A copy that gets signals while it runs."""

    def __init__(self, kill: Callable[[], None]) -> None:
        self.stops = 0
        self.kill = kill

    def stop(self) -> None:
        self.stops += 1

    def run(self, _watch: object) -> int:
        self.kill()
        return self.stops


class Bar:
    show = None

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def kill_with(*numbers: int) -> Callable[[], None]:
    def kill() -> None:
        for number in numbers:
            os.kill(os.getpid(), number)

    return kill


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Sessions that were stopped; starting one takes no time."""
    sessions: list[Any] = []

    def start(*_: object, **__: object) -> str:
        # As PySpark does.
        signal.signal(signal.SIGINT, lambda *_: pytest.fail("PySpark's handler"))
        return "session"

    monkeypatch.setattr(session, "session", start)
    monkeypatch.setattr(session, "stop_session", sessions.append)
    return sessions


def test_signals_stop_the_copy_and_leave_no_handler(stopped: list[Any]) -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    work = Work(kill_with(*SIGNALS, *SIGNALS))
    bar: Any = Bar()
    assert copies.on_spark("ottla-test", "local[1]", lambda _: (work, bar)) == 4
    assert stopped == ["session"]
    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_spark_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    def start(*_: object, **__: object) -> None:
        kill_with(number)()

    monkeypatch.setattr(session, "session", start)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(OttlaError, match="stopped while Spark was starting"):
        copies.on_spark("ottla-test", "local[1]", lambda _: pytest.fail("it goes on"))
    assert not list(tmp_path.iterdir())
    assert [signal.getsignal(each) for each in SIGNALS] == before


def test_a_spark_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited\nand more")

    monkeypatch.setattr(session, "session", start)
    words = (
        r"^Spark does not start at nonsense: \[JAVA_GATEWAY_EXITED\] .* exited \(Spark's own log"
    )
    with pytest.raises(OttlaError, match=words):
        copies.on_spark("ottla-test", "nonsense", lambda _: pytest.fail("nothing is begun"))


@pytest.mark.parametrize("option", ["--partitions", "--replication-factor"])
@pytest.mark.parametrize("command", [["clone", "a", "b"], ["resize", "a"]])
def test_numbers_that_no_request_can_hold(command: list[str], option: str) -> None:
    result = CliRunner().invoke(cli, [*command, option, "99999999999"])
    assert result.exit_code == 2 and "is not in the range" in result.output
