from __future__ import annotations

import pytest

from ottla.console.api.quotas import EntityPart, QuotaChange, check, number_text
from ottla.console.web.failures import ApiError

ALICE = [EntityPart("user", "alice")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (QuotaChange([], {"producer_byte_rate": 1}), "user"),
        (QuotaChange([EntityPart("user", "")], {"producer_byte_rate": 1}), "user"),
        (QuotaChange([*ALICE, *ALICE], {"producer_byte_rate": 1}), "entity"),
        (QuotaChange([*ALICE, EntityPart("ip", "::1")], {}), "entity"),
        (QuotaChange(ALICE), "producer_byte_rate"),
        (QuotaChange(ALICE, {"producer_byte_rate": 0}), "producer_byte_rate"),
        (QuotaChange(ALICE, {"connection_creation_rate": 1}), "connection_creation_rate"),
        (QuotaChange([EntityPart("ip")], {}, ["producer_byte_rate"]), "producer_byte_rate"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(change: QuotaChange, field: str) -> None:
    with pytest.raises(ApiError) as refused:
        check(change)
    assert refused.value.field == field


def test_whole_numbers_are_written_as_such() -> None:
    assert [number_text(value) for value in (1048576.0, 12.5, 1e15)] == [
        "1048576", "12.5", "1000000000000000",
    ]  # fmt: skip
