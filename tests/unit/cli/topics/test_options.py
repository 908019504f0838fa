"""The options of `ottla topics`: kafka-topics' rules and texts."""

from __future__ import annotations

from typing import Any

import click
import pytest

from ottla.cli.include_list import InvalidPattern
from ottla.cli.topics.options import (
    TopicCommandError,
    TopicOptions,
    check_numbers,
    check_usage,
    needs_asking,
    parse_assignment,
    parse_configs,
    select_topics,
)

ONE_ACTION = (
    "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
)


ONE_SOURCE = "Only one of --bootstrap-server or --zookeeper must be specified"
ZK = {"zookeeper": "h:2181"}


def conflict(name: str, other: str) -> str:
    return f'Option "[{name}]" can\'t be used with option "[{other}]"'


@pytest.mark.parametrize(
    "given",
    [
        {"list": True},
        {"list": True, "exclude_internal": True, "topic": "a.*"},
        {"describe": True},
        {"describe": True, "if_exists": True, "topic": "a"},
        {"describe": True, "under_replicated_partitions": True},
        {"describe": True, "topics_with_overrides": True},
        {"create": True, "topic": "a", "partitions": 0},
        {"create": True, "topic": "a", "replica_assignment": "1:2", "config": ("a=b",)},
        {"alter": True, "topic": "a", "partitions": 3, "replica_assignment": "1"},
        {"delete": True, "topic": "a", "if_exists": True},
        {"delete": True, "topic": "a", "wait": True, "force": True},
        {"describe": True, "topic_id": "x", "if_exists": True},
        {**ZK, "create": True, "topic": "a", "partitions": 1, "replication_factor": 1},
        {**ZK, "create": True, "topic": "a", "replica_assignment": "1"},
        {**ZK, "alter": True, "topic": "a", "config": ("a=b",), "delete_config": ("c",)},
        {**ZK, "alter": True, "topic": "a"},
        {**ZK, "describe": True, "under_replicated_partitions": True},
    ],
)
def test_what_goes_together(given: dict[str, Any]) -> None:
    check_usage(TopicOptions(**given))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, ONE_ACTION),
        ({"list": True, "create": True}, ONE_ACTION),
        ({"create": True}, 'Missing required argument "[topic]"'),
        ({"delete": True}, 'Missing required argument "[topic]"'),
        ({"describe": True, "if_exists": True}, 'Missing required argument "[topic]"'),
        ({"alter": True, "topic": "a"}, 'Missing required argument "[partitions]"'),
        (
            {"alter": True, "topic": "a", "partitions": 1, "config": ("a=b",)},
            'Option combination "[bootstrap-server],[config]" can\'t be used with option "[alter]" '
            "(the kafka-configs CLI supports altering topic configs with a --bootstrap-server "
            "option)",
        ),
        ({"list": True, "partitions": 1}, conflict("partitions", "list")),
        ({"list": True, "if_exists": True}, conflict("if-exists", "list")),
        (
            {"alter": True, "topic": "a", "partitions": 1, "replication_factor": 1},
            conflict("replication-factor", "alter"),
        ),
        (
            {"delete": True, "topic": "a", "if_not_exists": True},
            conflict("if-not-exists", "delete"),
        ),
        (
            {"create": True, "topic": "a", "exclude_internal": True},
            conflict("exclude-internal", "create"),
        ),
        (
            {"create": True, "topic": "a", "replica_assignment": "1", "partitions": 1},
            conflict("replica-assignment", "partitions"),
        ),
        (
            {"describe": True, "unavailable_partitions": True, "topics_with_overrides": True},
            conflict("unavailable-partitions", "topics-with-overrides"),
        ),
        (
            {"list": True, "at_min_isr_partitions": True},
            conflict("at-min-isr-partitions", "list"),
        ),
        ({**ZK, "bootstrap_server": "h:1", "list": True}, ONE_SOURCE),
        ({**ZK, "create": True, "topic": "a"}, 'Missing required argument "[partitions]"'),
        (
            {**ZK, "create": True, "topic": "a", "partitions": 1},
            'Missing required argument "[replication-factor]"',
        ),
        (
            {"alter": True, "topic": "a", "partitions": 1, "delete_config": ("x",)},
            conflict("delete-config", "bootstrap-server"),
        ),
        (
            {**ZK, "delete": True, "topic": "a", "delete_config": ("x",)},
            conflict("delete-config", "delete"),
        ),
        (
            {**ZK, "describe": True, "at_min_isr_partitions": True},
            conflict("at-min-isr-partitions", "zookeeper"),
        ),
        ({**ZK, "describe": True, "topic_id": "x"}, conflict("topic-id", "zookeeper")),
        ({"list": True, "wait": True}, conflict("wait", "list")),
    ],
)
def test_what_does_not(given: dict[str, Any], text: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        check_usage(TopicOptions(**given))
    assert caught.value.format_message() == text


@pytest.mark.parametrize("factor", [0, -1, 32768])
def test_replication_factors_have_a_range(factor: int) -> None:
    with pytest.raises(TopicCommandError) as caught:
        check_numbers(TopicOptions(replication_factor=factor, partitions=0))
    assert str(caught.value) == "The replication factor must be between 1 and 32767 inclusive"


def test_partitions_are_positive() -> None:
    with pytest.raises(TopicCommandError, match=r"^The partitions must be greater than 0$"):
        check_numbers(TopicOptions(partitions=0))
    check_numbers(TopicOptions(partitions=1, replication_factor=32767))


def test_configs() -> None:
    assert parse_configs(["a=b", " c = d "]) == {"a": "b", "c": "d"}
    for bad in ("a", "a=", "a=b=c", ""):
        with pytest.raises(TopicCommandError) as caught:
            parse_configs([bad])
        assert str(caught.value) == (
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".'
        )


def test_assignments() -> None:
    assert parse_assignment("1:2, 2 : 3") == {0: [1, 2], 1: [2, 3]}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("1:1:2:2", "Partition replica lists may not contain duplicate entries: 1,2"),
        ("1:2,3", "Partition 1 has different replication factor: 3"),
        ("1:x", 'For input string: "x"'),
        ("1,,2", 'For input string: ""'),
    ],
)
def test_bad_assignments(given: str, text: str) -> None:
    with pytest.raises(TopicCommandError) as caught:
        parse_assignment(given)
    assert str(caught.value) == text


def test_topics_are_selected_by_regular_expression() -> None:
    names = ["a", "ab", "b.c", "bxc"]

    def select(topic: str | None) -> list[str]:
        return select_topics(names, TopicOptions(describe=True, topic=topic))

    assert select(None) == names
    assert select("a") == ["a"]
    assert select("a,bxc") == ["a", "bxc"]
    assert select("a.*") == ["a", "ab"]
    assert select('"a, b\\.c"') == ["a", "b.c"]
    with pytest.raises(InvalidPattern, match=r"^\( is an invalid regex\.$"):
        select("(")
    with pytest.raises(TopicCommandError, match=r"^Topic 'x' does not exist as expected$"):
        select("x")
    with pytest.raises(
        TopicCommandError, match=r"expected \(if it is in the trash .* ottla purge\)"
    ):
        select_topics(names, TopicOptions(delete=True, purge=True, topic="x"))
    assert select_topics(names, TopicOptions(list=True, topic="x")) == []
    assert select_topics(names, TopicOptions(delete=True, topic="x", if_exists=True)) == []


def test_what_goes_without_a_question() -> None:
    def asks(topic: str, *found: str, yes: bool = False, force: bool = False) -> bool:
        return needs_asking(TopicOptions(delete=True, topic=topic, yes=yes, force=force), found)

    assert not asks("a", "a")
    assert not asks("a, b.c", "a", "b.c")
    assert not asks(".*")
    assert asks(".*", "a")
    assert asks("b.c", "b.c", "bxc"), "a dot stands for any letter"
    assert asks("a,c.*", "a", "c")
    assert asks("__consumer_offsets", "__consumer_offsets"), "groups forget where they are"
    assert not asks(".*", "a", yes=True)
    assert not asks(".*", "a", force=True)
