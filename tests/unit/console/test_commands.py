"""The commands are read back by the command line's own code: they mean what the page does."""

from __future__ import annotations

import shlex
from itertools import pairwise

from ottla.cli.configs.options import parse_added, parse_deleted
from ottla.cli.include_list import compile_include_list
from ottla.cli.topics.options import parse_assignment, parse_configs
from ottla.console import commands
from ottla.console.settings import ConsoleSettings

_SETTINGS = ConsoleSettings("localhost:9092")
_HOSTILE = "'; rm -rf / #\n$(touch x) <b>\u202e"


def _options(line: str, name: str) -> list[str]:
    words = shlex.split(line)
    return [value for word, value in pairwise(words) if word == name]


def test_a_secured_cluster_needs_the_readers_own_file() -> None:
    secured = ConsoleSettings("h:1", properties={"security.protocol": "SASL_SSL"})
    line = commands.ottla(secured, "topics", "--list")
    assert line == "ottla topics --bootstrap-server h:1 --command-config client.properties --list"


def test_numbers_that_are_not_given_are_left_to_the_cluster() -> None:
    (line,) = commands.create_topic(_SETTINGS, "t", None, None, None, {})
    assert line == "ottla topics --bootstrap-server localhost:9092 --create --topic t"


def test_an_assignment_is_read_back() -> None:
    (line,) = commands.create_topic(_SETTINGS, "t", 2, 2, [[1, 2], [2, 3]], {})
    (given,) = _options(line, "--replica-assignment")
    assert parse_assignment(given) == {0: [1, 2], 1: [2, 3]}
    assert "--partitions" not in line


def test_configs_that_kafka_topics_cannot_carry_come_after_it() -> None:
    configs = {"retention.ms": "5", "empty": "", "sum": "a=b,c", "odd": _HOSTILE.strip()}
    first, second = commands.create_topic(_SETTINGS, "t", 1, 1, None, configs)
    given = parse_configs(_options(first, "--config"))
    assert given == {"retention.ms": "5", "odd": _HOSTILE.strip()}
    assert parse_added(_options(second, "--add-config")[0]) == {"empty": "", "sum": "a=b,c"}


def test_a_dot_in_a_name_is_a_dot() -> None:
    for line in (
        commands.delete_topic(_SETTINGS, "a.b"),
        commands.expand_topic(_SETTINGS, "a.b", 3, [], None),
    ):
        pattern = compile_include_list(_options(line, "--topic")[0])
        assert pattern.fullmatch("a.b")
        assert not pattern.fullmatch("axb")


def test_an_expansion_names_all_partitions() -> None:
    line = commands.expand_topic(_SETTINGS, "t", 4, [[1, 2], [2]], [[3, 1], [1, 2]])
    given = parse_assignment(_options(line, "--replica-assignment")[0])
    assert {p: given[p] for p in (2, 3)} == {2: [3, 1], 3: [1, 2]}


def test_configs_are_set_and_reset() -> None:
    (line,) = commands.alter_configs(
        _SETTINGS, "t", {"cleanup.policy": "compact,delete"}, ["a", "b"]
    )
    assert parse_added(_options(line, "--add-config")[0]) == {"cleanup.policy": "compact,delete"}
    assert parse_deleted(_options(line, "--delete-config")) == ["a", "b"]


def test_a_name_like_an_option_is_a_name() -> None:
    line = commands.ottla(_SETTINGS, "rename", *commands.arguments("-x", "y"))
    assert shlex.split(line)[-3:] == ["--", "-x", "y"]
    assert commands.arguments("x", "y-") == ("x", "y-")
