"""Names of offsets that nobody sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.hidden_names import hidden_name, is_hidden, read_hidden
from ottla.errors import KafkaError
from ottla.topics import names

DAY_MS = 86_400_000


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**63 - 1))
def test_round_trip(topic_id: bytes, until_ms: int) -> None:
    name = hidden_name(topic_id, until_ms)
    assert is_hidden(name)
    assert read_hidden(name) == (topic_id, min(until_ms + DAY_MS, 2**63 - 1))
    with pytest.raises(KafkaError):
        names.validate(name)


@pytest.mark.parametrize(
    "name", ["t", "ottla-trash", "ottla-trash:", "ottla-trash:x:1", "ottla-trash:a:b"]
)
def test_what_is_none(name: str) -> None:
    assert read_hidden(name) is None
