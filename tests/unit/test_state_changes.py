"""Lines of the state-change log are gathered, and bounded."""

from __future__ import annotations

import logging

import pytest

from ottla.state_changes import (
    LOGGER_NAME,
    MAX_LINES_TOGETHER,
    MAX_WAITING_LINES,
    TRACE,
    StateChangeLines,
    write_lines,
)


def test_nothing_waits_without_a_bound(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE, LOGGER_NAME)
    lines = StateChangeLines()
    for number in range(MAX_WAITING_LINES + 1):
        lines.add(TRACE, str(number))
    written = [record.getMessage().splitlines() for record in caplog.records]
    assert [line for some in written for line in some] == list(map(str, range(MAX_WAITING_LINES)))
    assert max(map(len, written)) == MAX_LINES_TOGETHER
    lines.flush()
    assert caplog.records[-1].getMessage() == str(MAX_WAITING_LINES)


def test_many_lines_wait_together_and_errors_do_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(TRACE, LOGGER_NAME)
    lines = StateChangeLines()
    lines.add(TRACE, "a")
    lines.add_all(TRACE, ["b", "c\nforged", "d"])
    assert caplog.records == []
    lines.add_all(logging.ERROR, ["e", "f"])
    assert [record.getMessage() for record in caplog.records] == ["a\nb\nc\\nforged\nd", "e\nf"]
    lines.add_all(TRACE, [str(number) for number in range(MAX_WAITING_LINES + 1)])
    assert sum(len(record.getMessage().splitlines()) for record in caplog.records[2:]) == (
        MAX_WAITING_LINES + 1
    )


def test_no_lines_no_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER_NAME)
    write_lines(logging.INFO, [])
    write_lines(TRACE, ["not wanted"])
    StateChangeLines().flush()
    assert caplog.records == []
