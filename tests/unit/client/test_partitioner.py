"""Where a record goes, with a key and without."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from ottla.client.partitioner import StickyChoice, partition_of_key
from ottla.topics.partitioners import murmur2
from tests.support.native import FORMS, in_force


@pytest.fixture(params=FORMS, scope="module", autouse=True)
def form(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test here runs on native code and on pure Python."""
    with in_force(request.param):
        yield


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"abc", 479470107), (b"", 275646681)],
)
def test_murmur2(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected
    assert partition_of_key(key, 7) == (expected & 0x7FFFFFFF) % 7


def test_records_without_key_stay_until_a_batch_is_sent() -> None:
    choice = StickyChoice(random.Random(1))
    first = choice.current([0, 1, 2])
    assert {choice.current([0, 1, 2]) for _ in range(20)} == {first}
    choice.move_on([0, 1, 2])
    assert choice.current([0, 1, 2]) != first
    assert choice.current([7]) == 7
    choice.move_on([7])
    assert choice.current([7]) == 7
