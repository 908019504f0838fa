"""Where `ottla consume` begins."""

from __future__ import annotations

import click
import pytest

from ottla.cli.data.consume import Start, check_group, choose_start, parse_start


def test_starts() -> None:
    assert parse_start("earliest") == Start()
    assert parse_start("latest") == Start(at_end=True)
    assert parse_start("12") == Start(offset=12)
    assert parse_start("-12") == Start(at_end=True, back=12)
    for text in ("", "x", "1.5", "--1", "9" * 30):
        with pytest.raises(click.UsageError):
            parse_start(text)


def test_one_start_is_chosen() -> None:
    assert choose_start(False, None, None, follow=False) == Start()
    assert choose_start(False, None, None, follow=True) == Start(at_end=True)
    assert choose_start(True, None, None, follow=True) == Start()
    assert choose_start(False, "0", None, follow=True) == Start(offset=0)
    assert choose_start(False, None, "1970-01-02", follow=True) == Start(timestamp_ms=86_400_000)
    for given in ((True, "0", None), (True, None, "1h"), (False, "0", "1h")):
        with pytest.raises(click.UsageError, match="cannot be used together"):
            choose_start(*given, follow=False)


def test_what_a_group_decides_itself() -> None:
    check_group((), None, None)
    with pytest.raises(click.UsageError, match="group and partition cannot be specified together"):
        check_group((0,), None, None)
    for given in (("5", None), (None, "1h")):
        with pytest.raises(click.UsageError, match="--reset-offsets"):
            check_group((), *given)
