"""The version in front of a coordinator's keys and values."""

from __future__ import annotations

import pytest

from ottla.coordinator.versioned import (
    VERSION_BYTES,
    RecordFormatError,
    encode_versioned,
    read_version,
)
from ottla.wire import messages as m


def test_versioned_structures() -> None:
    raw = encode_versioned(m.OffsetCommitKey(group="g", topic="t", partition=1), 1)
    assert raw.hex() == "0001" + "000167" + "000174" + "00000001"
    assert read_version(raw) == 1
    assert m.OffsetCommitKey.decode(raw, 1, VERSION_BYTES)[0].topic == "t"
    with pytest.raises(RecordFormatError):
        read_version(b"\x00")
