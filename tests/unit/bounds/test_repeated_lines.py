from __future__ import annotations

import asyncio
import logging

import pytest

from ottla.bounds.repeated_lines import LineLimits, RepeatedLines

LIMITS = LineLimits(period_ms=10_000, per_key=2, per_source=4, in_all=6)


class _Clock:
    def __init__(self) -> None:
        self.ms = 1000.0

    def now_ms(self) -> int:
        return int(self.ms)

    def monotonic_ms(self) -> float:
        return self.ms


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def lines(clock: _Clock, caplog: pytest.LogCaptureFixture) -> RepeatedLines:
    caplog.set_level(logging.INFO, logger="refusals")
    return RepeatedLines(logging.getLogger("refusals"), clock, LIMITS)


def _say(lines: RepeatedLines, source: str, key: str) -> bool:
    return lines.log(logging.INFO, source, key, "%s was refused %s", source, key)


def test_equal_lines_are_written_a_few_times_and_then_counted(
    lines: RepeatedLines, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert [_say(lines, "eve", "topic") for _ in range(100)] == [True, True] + [False] * 98
    clock.ms += LIMITS.period_ms
    assert _say(lines, "eve", "topic")
    assert caplog.messages == [
        "eve was refused topic",
        "eve was refused topic",
        "98 more lines because of eve were left out within 10 s",
        "eve was refused topic",
    ]


def test_a_source_that_varies_its_keys_is_limited_and_others_still_have_lines(
    lines: RepeatedLines,
) -> None:
    assert sum(_say(lines, "eve", f"topic-{i}") for i in range(1000)) == 4
    assert _say(lines, "bob", "topic")


def test_many_sources_are_limited_together_and_take_little_memory(
    lines: RepeatedLines, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    assert sum(_say(lines, f"host-{i}", "x") for i in range(5000)) == 6
    clock.ms += LIMITS.period_ms
    _say(lines, "bob", "x")
    counted = [line for line in caplog.messages if "left out" in line]
    assert len(counted) == 101
    assert counted[-1] == "4894 more lines because of others were left out within 10 s"


def test_a_line_that_comes_rarely_is_always_written(lines: RepeatedLines, clock: _Clock) -> None:
    for _ in range(20):
        assert _say(lines, "eve", "topic")
        clock.ms += LIMITS.period_ms


def test_a_level_that_is_off_counts_nothing(
    lines: RepeatedLines, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        lines.log(logging.DEBUG, "eve", "topic", "never")
    clock.ms += LIMITS.period_ms
    _say(lines, "eve", "topic")
    assert caplog.messages == ["eve was refused topic"]


async def test_what_was_left_out_is_told_when_nothing_more_comes(
    clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = asyncio.Event()

    class Tells(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "left out" in record.getMessage():
                told.set()

    logger = logging.getLogger("refusals")
    logger.setLevel(logging.INFO)
    handler = Tells()
    logger.addHandler(handler)
    try:
        lines = RepeatedLines(logger, clock, LIMITS._replace(period_ms=20))
        for _ in range(3):
            _say(lines, "eve", "topic")
        async with asyncio.timeout(30):
            await told.wait()
    finally:
        logger.removeHandler(handler)
