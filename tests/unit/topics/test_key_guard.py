"""The config ottla.key.guard."""

from __future__ import annotations

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.configs import LogConfig, validate_topic_configs
from ottla.topics.key_guard import KEY_GUARD, KeyGuard, parse
from ottla.topics.partitioners import Partitioner, partition_of


def test_a_key_is_allowed_at_home_alone() -> None:
    guard = KeyGuard(Partitioner.MURMUR2, 10)
    for number in range(100):
        key = str(number).encode()
        home = partition_of(Partitioner.MURMUR2, key, 5)
        assert [p for p in range(5) if guard.allows(key, p, 5)] == [home]


@pytest.mark.parametrize("partitioner", list(Partitioner))
def test_without_a_key_there_is_no_order_to_keep(partitioner: Partitioner) -> None:
    assert all(KeyGuard(partitioner, 10).allows(None, p, 5) for p in range(5))


def test_an_empty_key_goes_anywhere_with_consistent_random() -> None:
    assert all(KeyGuard(Partitioner.CONSISTENT_RANDOM, 10).allows(b"", p, 5) for p in range(5))
    assert not all(KeyGuard(Partitioner.MURMUR2, 10).allows(b"", p, 5) for p in range(5))


def test_the_stored_form() -> None:
    for partitioner in Partitioner:
        guard = KeyGuard(partitioner, 1794884113336)
        validate_topic_configs({KEY_GUARD: guard.encode()})
        assert parse(LogConfig.resolve(None, {KEY_GUARD: guard.encode()}).ottla_key_guard) == guard
    assert parse(LogConfig.resolve().ottla_key_guard) is None


@pytest.mark.parametrize("text", ["murmur2", "murmur3@5", "murmur2@", "@5", "murmur2@-5", "x"])
def test_what_is_no_guard_is_refused(text: str) -> None:
    with pytest.raises(KafkaError) as refused:
        validate_topic_configs({KEY_GUARD: text})
    assert refused.value.code is ErrorCode.INVALID_CONFIG
