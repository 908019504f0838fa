"""Whom a quota is for in requests and in paths, values, and filters."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ottla.broker.quotas.entities import Entity, path_of
from ottla.broker.quotas.stored import (
    CLIENT_ID,
    IP,
    USER,
    Component,
    check_filter,
    entity_of,
    is_wanted,
    named,
    value_text,
)
from ottla.errors import ErrorCode, KafkaError


def test_names_in_requests_and_in_paths() -> None:
    entity = entity_of([(USER, "a/b"), (CLIENT_ID, None)])
    assert entity == Entity("a%2Fb", "<default>")
    assert named(entity) == [(USER, "a/b"), (CLIENT_ID, None)]
    assert path_of(entity) == "users/a%2Fb/clients/<default>"
    assert path_of(entity_of([(CLIENT_ID, "c")])) == "clients/c"
    assert named(entity_of([(IP, "::1")])) == [(IP, "::1")]
    assert path_of(entity_of([(IP, None)])) == "ips/<default>"
    for wrong in (
        [],
        [(IP, "1.2.3.4"), (USER, "u")],
        [(IP, "nowhere")],
        [("x", "y")],
        [(USER, "")],
        [(USER, "a"), (USER, "b")],
    ):
        with pytest.raises(KafkaError) as raised:
            entity_of(wrong)
        assert raised.value.code is ErrorCode.INVALID_REQUEST


U, C, UC = Entity("u", None), Entity(None, "c"), Entity("u", "<default>")


ADDRESS = Entity(None, None, "1.2.3.4")


def test_values() -> None:
    assert value_text(C, "producer_byte_rate", 1024.0) == "1024"
    assert value_text(C, "request_percentage", 50) == "50.0"
    assert value_text(ADDRESS, "connection_creation_rate", 5) == "5"
    for key, value in (
        ("producer_byte_rate", 1.5),
        ("producer_byte_rate", math.inf),
        ("producer_byte_rate", math.nan),
        ("producer_byte_rate", 1e30),
        ("producer_byte_rate", 0.0),
        ("request_percentage", math.nan),
        ("request_percentage", math.inf),
        ("request_percentage", -1.0),
        ("connection_creation_rate", 1.0),
        ("nope", 1.0),
    ):
        with pytest.raises(KafkaError):
            value_text(C, key, value)
    for key, value in (
        ("producer_byte_rate", 1.0),
        ("connection_creation_rate", 5.5),
        ("connection_creation_rate", 1e10),
    ):
        with pytest.raises(KafkaError):
            value_text(ADDRESS, key, value)


@pytest.mark.parametrize(
    ("components", "strict", "wanted"),
    [
        ([], False, [U, C, UC, ADDRESS]),
        ([], True, []),
        ([Component(USER, 0, "u")], False, [U, UC]),
        ([Component(USER, 0, "u")], True, [U]),
        ([Component(USER, 2, None), Component(CLIENT_ID, 1, None)], True, [UC]),
        ([Component(CLIENT_ID, 2, None)], False, [C, UC]),
        ([Component(CLIENT_ID, 0, "other")], False, []),
        ([Component(IP, 2, None)], False, [ADDRESS]),
        ([Component(IP, 0, "1.2.3.4")], True, [ADDRESS]),
        ([Component(IP, 1, None)], True, []),
    ],
)
def test_filters(components: list[Component], strict: bool, wanted: list[Entity]) -> None:
    checked = check_filter(components)
    assert [e for e in (U, C, UC, ADDRESS) if is_wanted(e, checked, strict=strict)] == wanted


def test_wrong_filters() -> None:
    wrong: list[list[Any]] = [
        [Component("", 2, None)],
        [Component(USER, 3, None)],
        [Component(USER, 0, None)],
        [Component(USER, 1, "u")],
        [Component(USER, 2, None), Component(USER, 1, None)],
        [Component(USER, 2, None), Component(IP, 2, None)],
        [Component("planet", 2, None)],
    ]
    for components in wrong:
        with pytest.raises(KafkaError):
            check_filter(components)
