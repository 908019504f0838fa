"""The order of Java's HashMap, as a JVM gave it for these names."""

from __future__ import annotations

import pytest

from ottla.cli.java_order import hash_map_order


@pytest.mark.parametrize(
    ("put", "got"),
    [
        ("segment.bytes,retention.ms", "segment.bytes,retention.ms"),  # they share a bucket
        ("retention.ms,segment.bytes", "retention.ms,segment.bytes"),
        ("a,b,c,Q", "a,Q,b,c"),
        # Beyond twelve names the table doubles, and the order changes with it.
        ("a,b,c,d,e,f,g,h,i,j,k,l,m,Q", "a,b,c,d,e,f,g,h,i,j,k,l,m,Q"),
        (
            "cleanup.policy,compression.type,delete.retention.ms,flush.ms,é😀,retention.bytes",
            "compression.type,cleanup.policy,é😀,flush.ms,delete.retention.ms,retention.bytes",
        ),
    ],
)
def test_names_come_as_from_a_hash_map(put: str, got: str) -> None:
    assert ",".join(hash_map_order(put.split(","))) == got
