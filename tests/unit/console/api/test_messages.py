"""Records to write: what is refused at which field, and the command that does the same."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.data.record_text import parse_json_line
from ottla.console.api.messages import NewData, NewHeader, NewMessage, _produce_commands, record_of
from ottla.console.settings import ConsoleSettings
from ottla.console.web.failures import ApiError
from ottla.console.web.routes import Call


def a_call(new: NewMessage, **properties: str) -> Call:
    access: Any = SimpleNamespace()
    settings = ConsoleSettings("h:1", properties=properties)
    return Call(access, settings, {"topic": "t"}, None, new)


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (NewMessage(key=NewData("0", "hex")), "key"),
        (NewMessage(value=NewData("xy", "hex")), "value"),
        (NewMessage(value=NewData("{", "json")), "value"),
        (NewMessage(value=NewData("[" * 100_000, "json")), "value"),
        (NewMessage(value=NewData("\ud800")), "value"),
        (NewMessage(headers=[NewHeader("\ud800")]), "headers"),
        (NewMessage(headers=[NewHeader("h")] * 1001), "headers"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(new: NewMessage, field: str) -> None:
    with pytest.raises(ApiError) as caught:
        record_of(new)
    assert caught.value.field == field


def test_the_command_writes_the_same_record() -> None:
    new = NewMessage(
        NewData("ff 00", "hex"),
        NewData('{"it\'s": 1e400}', "json"),
        [NewHeader("a", NewData("b")), NewHeader("a", None)],
        3,
    )
    [command] = _produce_commands(a_call(new))
    words = shlex.split(command)
    assert words[:2] == ["printf", "%s\\n"]
    assert words[3:] == shlex.split("| ottla produce --bootstrap-server h:1 t --format json")
    record, partition = parse_json_line(words[2].encode(), 5)
    assert partition == 3
    assert record == record_of(new, 5)


def test_a_tombstone_without_a_key() -> None:
    [command] = _produce_commands(a_call(NewMessage()))
    record, partition = parse_json_line(shlex.split(command)[2].encode(), 5)
    assert (record.key, record.value, partition) == (None, None, None)


@pytest.mark.parametrize("text", ["x" * 100_000, "a\u202eb"])
def test_what_is_no_good_in_a_terminal_comes_from_a_file(text: str) -> None:
    new = NewMessage(value=NewData(text))
    call = a_call(new, **{"security.protocol": "SASL_SSL"})
    assert _produce_commands(call) == [
        "ottla produce --bootstrap-server h:1 --command-config client.properties t --format json "
        "--file record.json"
    ]
