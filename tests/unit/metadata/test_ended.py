"""Entries of deleted topics: what is written is read, and garbage is no evidence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.ended import EndedTopic, EndedTopicZnode, Kept

NAMES = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,248}", fullmatch=True)


@given(NAMES, st.sets(st.integers(0, 2**31 - 1)))
def test_round_trip(topic: str, brokers: set[int]) -> None:
    data = EndedTopicZnode.encode(topic, brokers)
    assert EndedTopicZnode.decode(data) == EndedTopic(topic, tuple(sorted(brokers)))


REPLICAS = st.dictionaries(
    st.integers(0, 2**31 - 1), st.lists(st.integers(0, 2**31 - 1)).map(tuple), min_size=1
)


@given(REPLICAS, st.dictionaries(st.text(), st.text()), st.none() | NAMES, st.data())
def test_round_trip_of_what_is_kept(
    replicas: dict[int, tuple[int, ...]],
    configs: dict[str, str],
    name: str | None,
    data: st.DataObject,
) -> None:
    isrs = {p: ids[:1] for p, ids in replicas.items() if data.draw(st.booleans())}
    kept = Kept(5, 2**63 - 1, replicas, configs, 7, isrs, name)
    entry = EndedTopic("t", (1, 2), kept)
    assert EndedTopicZnode.decode(EndedTopicZnode.encode_entry(entry)) == entry


@pytest.mark.parametrize("change", [{"until_ms": None}, {"partitions": {}}, {"config": []}])
@pytest.mark.parametrize("extra", [{}, {"isr": {"9": [1]}}, {"undelete_as": 3}])
def test_half_an_entry_is_no_evidence(change: dict[str, object], extra: dict[str, object]) -> None:
    entry = EndedTopic("t", (), Kept(1, 2, {0: (1,)}, {}, 0, {}))
    value = json.loads(EndedTopicZnode.encode_entry(entry))
    assert EndedTopicZnode.decode(json.dumps(value | change | extra).encode()) is None
    if extra:
        assert EndedTopicZnode.decode(json.dumps(value | extra).encode()) is None


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "a/b"},
        {"topic": ".."},
        {"topic": "a\0b"},
        {"topic": "\ud800"},
        {"topic": "x" * 250},
        {"brokers": [2**31]},
        {"brokers": [-1]},
        {"until_ms": 2**63},
        {"until_ms": -1},
        {"deleted_ms": -(2**62)},
        {"leader_epoch": 2**31 - 1},
        {"leader_epoch": -1},
        {"partitions": {"0": [2**40]}},
        {"partitions": {str(2**40): [0]}},
        {"partitions": {"0": [0]}, "isr": {"0": [-5]}},
        {"config": {"retention.ms": "\ud800"}},
        {"undelete_as": "../x"},
        {"undelete_as": "y" * 500},
    ],
    ids=repr,
)
def test_what_fits_no_path_and_no_request_is_garbage(change: dict[str, object]) -> None:
    """A controller that took it at its word could not write its path, or send its number."""
    entry = EndedTopic("t", (), Kept(1, 2, {0: (1,)}, {}, 0, {}))
    value = json.loads(EndedTopicZnode.encode_entry(entry))
    assert EndedTopicZnode.decode(json.dumps(value).encode()) == entry
    assert EndedTopicZnode.decode(json.dumps(value | change).encode()) is None


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
