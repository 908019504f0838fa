"""Java's hash decides the coordinator."""

from __future__ import annotations

from ottla.coordinator.placement import partition_of


def test_partitions() -> None:
    assert partition_of("test", 50) == 48
    assert partition_of("my-group", 50) == 12
    assert partition_of("polygenelubricants", 50) == 0, "the smallest integer counts as 0"
