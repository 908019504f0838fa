"""The schema files and their parser."""

from __future__ import annotations

import pytest

from ottla.wire.schema import (
    NO_VERSIONS,
    SCHEMA_FOLDER,
    Versions,
    load_api_names,
    load_message,
    parse_messages,
    parse_versions,
    snake_case,
)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0+", Versions(0, 32767)),
        ("2-4", Versions(2, 4)),
        ("3", Versions(3, 3)),
        ("none", NO_VERSIONS),
    ],
)
def test_versions(text: str, versions: Versions) -> None:
    assert parse_versions(text) == versions
    assert (3 in versions) == (text != "none")


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("IsKRaftController", "is_kraft_controller"),
        ("V3AndBelowTopics", "v3_and_below_topics"),
    ],
)
def test_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_nested_and_shared_structs() -> None:
    text = """
    # a comment
request XRequest 0-2 key 9 flexible 2+
  struct Shared 1+
    A int32 1+
  Things []Thing 0+ null 1+
    Name string 0+ default "" ignorable
    Part Shared 1+ tag 0 2+
"""
    (message,) = parse_messages(text)
    assert (message.api_key, message.flexible.first) == (9, 2)
    assert set(message.structs) == {"Shared", "Thing"}
    part = message.structs["Thing"].fields[1]
    assert (part.name, part.tag, part.tagged.first) == ("part", 0, 2)


def test_a_wrong_option_is_an_error() -> None:
    with pytest.raises(ValueError, match="colour"):
        list(parse_messages("data X 0\n  A int32 0+ colour red\n"))


def test_every_schema_file_parses_and_is_reachable_by_name() -> None:
    found = 0
    for path in SCHEMA_FOLDER.glob("*.schema"):
        for message in parse_messages(path.read_text(encoding="utf-8")):
            assert load_message(message.name) == message
            found += 1
    assert found > 180
    assert len(load_api_names()) == 88
