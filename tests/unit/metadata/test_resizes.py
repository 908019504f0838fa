"""The entry of a resize: what is written is read, and garbage is nothing."""

from __future__ import annotations

import json

import pytest

from ottla.metadata.resizes import ResizePhase, ResizeZnode, StoredResize
from ottla.types import ZERO_TOPIC_ID

RESIZE = StoredResize(
    "t", b"a" * 16, "shadow", ZERO_TOPIC_ID, 5, 2, "murmur2", ResizePhase.COPYING, 0, 17
)


@pytest.mark.parametrize("phase", ResizePhase)
@pytest.mark.parametrize("shadow_id", [ZERO_TOPIC_ID, b"b" * 16])
def test_what_is_written_is_read(phase: ResizePhase, shadow_id: bytes) -> None:
    resize = RESIZE._replace(phase=phase, shadow_id=shadow_id, fence=3)
    assert ResizeZnode.decode(ResizeZnode.encode(resize)) == resize
    assert resize.is_swapped == (phase in (ResizePhase.MOVING, ResizePhase.CARRYING))


@pytest.mark.parametrize("key", json.loads(ResizeZnode.encode(RESIZE)))
@pytest.mark.parametrize("value", [None, [], -1.5, "", "?", {}, -1, 2**70, "..", "a/b", "\ud800"])
def test_garbage_in_any_field_is_nothing(key: str, value: object) -> None:
    entry = json.loads(ResizeZnode.encode(RESIZE))
    entry[key] = value
    assert ResizeZnode.decode(json.dumps(entry).encode()) is None


@pytest.mark.parametrize("data", [None, b"", b"{", b"[]", b"\xff", b'{"version":2}'])
def test_other_bytes_are_nothing(data: bytes | None) -> None:
    assert ResizeZnode.decode(data) is None


def test_the_names_of_children() -> None:
    name = ResizeZnode.path(b"a" * 16).rpartition("/")[2]
    assert ResizeZnode.topic_id(name) == b"a" * 16
    assert ResizeZnode.topic_id("something else") is None
