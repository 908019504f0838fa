"""Entries of deleted topics: what is written is read, and garbage is no evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.ended import EndedTopic, EndedTopicZnode


@given(st.text(min_size=1), st.sets(st.integers(0, 2**31 - 1)))
def test_round_trip(topic: str, brokers: set[int]) -> None:
    data = EndedTopicZnode.encode(topic, brokers)
    assert EndedTopicZnode.decode(data) == EndedTopic(topic, tuple(sorted(brokers)))


@given(st.binary(min_size=16, max_size=16))
def test_the_name_is_the_id(topic_id: bytes) -> None:
    path = EndedTopicZnode.path(topic_id)
    parent, _, name = path.rpartition("/")
    assert parent == EndedTopicZnode.parent() and EndedTopicZnode.topic_id(name) == topic_id


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"t",
        b"[]",
        b"{}",
        b'{"version":2,"topic":"t","brokers":[]}',
        b'{"version":1,"topic":"","brokers":[]}',
        b'{"version":1,"topic":7,"brokers":[]}',
        b'{"version":1,"topic":"t"}',
        b'{"version":1,"topic":"t","brokers":[1,"2"]}',
        b'{"version":1,"topic":"t","brokers":{}}',
        b"\xff",
    ],
)
def test_garbage(data: bytes | None) -> None:
    assert EndedTopicZnode.decode(data) is None


@pytest.mark.parametrize("name", ["", "t", "notes", "A" * 21, "A" * 23, "A" * 21 + "=", "é" * 22])
def test_other_names(name: str) -> None:
    assert EndedTopicZnode.topic_id(name) is None
