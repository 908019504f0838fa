"""Which offsets a reset sets."""

from __future__ import annotations

import pytest

from ottla.client.groups.resets import Range, ResetFailed, shifted, within
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_offsets_stay_within_the_log() -> None:
    ranges = {T0: Range(5, 9), T1: Range(5, 9)}
    assert within({T0: 5, T1: 9}, ranges) == ({T0: 5, T1: 9}, [])
    plan, warnings = within({T0: 4, T1: 10}, ranges)
    assert plan == {T0: 5, T1: 9}
    assert warnings == [
        "New offset (4) is lower than earliest offset for topic partition t-0. "
        "Value will be set to 5",
        "New offset (10) is higher than latest offset for topic partition t-1. "
        "Value will be set to 9",
    ]


def test_a_shift_needs_a_committed_offset() -> None:
    assert shifted([T0], {T0: 5}, -7) == {T0: -2}
    with pytest.raises(ResetFailed, match="Cannot shift offset for partition t-1"):
        shifted([T0, T1], {T0: 5}, 1)
