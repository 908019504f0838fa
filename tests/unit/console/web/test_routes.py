from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.console.web.failures import ApiError
from ottla.console.web.routes import (
    Call,
    Route,
    command_line,
    read_body,
    read_query,
    wants_preview,
)


class Wanted(msgspec.Struct):
    name: str
    partitions: int = 1


async def nothing(_call: Call) -> Any:
    return None


def test_a_write_says_its_command() -> None:
    with pytest.raises(ValueError, match="say by which command"):
        Route("POST", "/topics", nothing, "Create a topic")
    assert Route("POST", "/topics", nothing, "x", commands=lambda _: ["ottla …"]).writes
    assert not Route("GET", "/topics", nothing, "List topics").writes


def test_a_query_is_text_that_means_numbers() -> None:
    assert read_query(Wanted, {"name": "t", "partitions": "3"}) == Wanted("t", 3)
    assert read_query(None, {"name": "t"}) is None
    assert read_query(Wanted, {"name": "t", "other": "1"}) == Wanted("t")
    with pytest.raises(ApiError) as caught:
        read_query(Wanted, {"name": "t", "partitions": "many"})
    assert caught.value.field == "partitions"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"\xff", b'{"name": 1}', b"null", b'{"x":' + b"[" * 20_000]
)
def test_bodies_that_are_wrong(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        read_body(Wanted, body)
    assert caught.value.status == 400


def test_a_command_can_be_pasted() -> None:
    assert command_line("ottla", "topics", "--topic", "a b", None) == "ottla topics --topic 'a b'"
    assert command_line("ottla", "$(reboot)") == "ottla '$(reboot)'"


def test_a_preview_is_asked_for_in_one_way() -> None:
    assert wants_preview(["true"])
    assert not wants_preview([]) and not wants_preview(["false"])


@pytest.mark.parametrize(
    "given", [["1"], ["True"], ["yes"], [""], ["true", "false"], ["true", "true"]]
)
def test_what_may_mean_a_preview_writes_nothing(given: list[str]) -> None:
    with pytest.raises(ApiError, match="true or false") as caught:
        wants_preview(given)
    assert caught.value.field == "preview"
