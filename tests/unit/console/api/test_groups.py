"""Groups as news, and the commands of resets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ottla.console.api.groups import (
    Choice,
    Group,
    OffsetRow,
    ResetRequest,
    _reset_commands,
    changed,
    plan_reset,
)
from ottla.console.settings import ConsoleSettings
from ottla.console.web.failures import ApiError
from ottla.console.web.routes import Call, read_body


def a_group(*rows: OffsetRow) -> Group:
    return Group("g", "Stable", "Classic", "consumer", "range", 1, [], list(rows), None)


def a_call(body: Any) -> Call:
    access: Any = SimpleNamespace(admin=SimpleNamespace(cluster=None))
    return Call(access, ConsoleSettings("h:1"), {}, None, body)


def test_news_has_only_what_changed() -> None:
    first, second = OffsetRow("t", 0, 1, 5, 4, None), OffsetRow("t", 1, 1, 5, 4, None)
    moved = msgspec.structs.replace(first, committed=5, lag=0)
    assert changed(a_group(first, second), a_group(first, second)) is None
    news = changed(a_group(first, second), a_group(moved))
    assert news is not None
    assert (news.offsets, news.gone) == ([moved], [("t", 1)])


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ResetRequest("g", "to-earliest"), "--all-topics --to-earliest"),
        (ResetRequest("g", "to-offset", 5, topics=[Choice("t", [0, 2]), Choice("u")]),
         "--topic t:0,2 --topic u --to-offset 5"),
        (ResetRequest("g", "shift-by", -3), "--all-topics --shift-by -3"),
        (ResetRequest("g", "to-datetime", time_ms=1500),
         "--all-topics --to-datetime 1970-01-01T00:00:01.500"),
    ],
)  # fmt: skip
def test_the_commands_of_a_reset(request_: ResetRequest, words: str) -> None:
    start = f"ottla groups --bootstrap-server h:1 --reset-offsets --group g {words}"
    assert _reset_commands(a_call(request_)) == [f"{start} --dry-run", f"{start} --execute"]


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (ResetRequest("g", "to-offset"), "number"),
        (ResetRequest("g", "to-offset", -1), "number"),
        (ResetRequest("g", "shift-by"), "number"),
        (ResetRequest("g", "to-datetime"), "time_ms"),
    ],
)
async def test_what_is_missing_is_told_at_its_field(request_: ResetRequest, field: str) -> None:
    with pytest.raises(ApiError) as caught:
        await plan_reset(a_call(request_))
    assert caught.value.field == field


def test_bodies_are_checked() -> None:
    for body in (b'{"id": "g", "scenario": "away"}', b'{"id": 1, "scenario": "to-latest"}'):
        with pytest.raises(ApiError):
            read_body(ResetRequest, body)
