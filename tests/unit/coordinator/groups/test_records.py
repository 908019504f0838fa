"""Records of `__consumer_offsets`: known bytes, round trips, and bytes that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups import records as rf
from ottla.coordinator.versioned import RecordFormatError
from ottla.types import TopicPartition

GROUP = rf.GroupValue(
    "consumer",
    7,
    "range",
    "m-1",
    1_700_000_000_000,
    (
        rf.GroupMember("m-1", "static", "c", "/127.0.0.1", 60_000, 10_000, b"\x00\x01", b"\x02"),
        rf.GroupMember("m-2", None, "c", "/127.0.0.1", 60_000, 10_000, b"", b""),
    ),
)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def test_keys_as_kafka_writes_them() -> None:
    offset_key = b"\x00\x01" + text("g") + text("clicks") + struct.pack(">i", 3)
    assert rf.encode_offset_key("g", TopicPartition("clicks", 3)) == offset_key
    assert rf.decode_key(offset_key) == rf.OffsetKey("g", TopicPartition("clicks", 3))
    assert rf.decode_key(b"\x00\x00" + offset_key[2:]) == rf.decode_key(offset_key)
    assert rf.encode_group_key("g") == b"\x00\x02" + text("g")
    assert rf.decode_key(b"\x00\x02" + text("g")) == rf.GroupKey("g")
    assert rf.decode_key(b"\x00\x03" + text("g")) is None, "a KIP-848 group"


def test_offset_values_as_kafka_writes_them() -> None:
    plain = rf.CommittedOffset(42, 5, "note", 1000)
    written = b"\x00\x03" + struct.pack(">qi", 42, 5) + text("note") + struct.pack(">q", 1000)
    assert rf.encode_offset_value(plain) == written
    assert rf.decode_offset_value(written) == plain
    retained = rf.CommittedOffset(42, 5, "note", 1000, 2000)
    written = b"\x00\x01" + struct.pack(">q", 42) + text("note") + struct.pack(">qq", 1000, 2000)
    assert rf.encode_offset_value(retained) == written
    assert rf.decode_offset_value(written) == retained._replace(leader_epoch=-1)


@pytest.mark.parametrize("version", [0, 2])
def test_older_offset_values_are_read(version: int) -> None:
    data = struct.pack(">hq", version, 42) + text("") + struct.pack(">q", 1000)
    assert rf.decode_offset_value(data) == rf.CommittedOffset(42, -1, "", 1000)


def test_group_values_as_kafka_writes_them() -> None:
    member = text("m-1") + text("static") + text("c") + text("/127.0.0.1")
    member += struct.pack(">ii", 60_000, 10_000)
    member += struct.pack(">i", 2) + b"\x00\x01" + struct.pack(">i", 1) + b"\x02"
    head = b"\x00\x03" + text("consumer") + struct.pack(">i", 7) + text("range") + text("m-1")
    head += struct.pack(">q", 1_700_000_000_000)
    written = rf.encode_group_value(GROUP)
    assert written.startswith(head + struct.pack(">i", 2) + member)
    assert rf.decode_group_value(written) == GROUP


def test_an_empty_group_has_no_protocol_and_no_leader() -> None:
    empty = rf.GroupValue("consumer", 8, None, None, None, ())
    assert rf.decode_group_value(rf.encode_group_value(empty)) == empty


def test_a_group_value_of_version_0_has_one_time_out() -> None:
    member = text("m") + text("c") + text("/h") + struct.pack(">i", 9000)
    member += struct.pack(">i", 0) + struct.pack(">i", 0)
    data = b"\x00\x00" + text("consumer") + struct.pack(">i", 1) + text("range") + text("m")
    decoded = rf.decode_group_value(data + struct.pack(">i", 1) + member)
    assert decoded.members[0].rebalance_timeout_ms == decoded.members[0].session_timeout_ms == 9000
    assert decoded.state_timestamp_ms is None


@pytest.mark.parametrize(
    "decode",
    [rf.decode_key, rf.decode_offset_value, rf.decode_group_value, rf.subscription_topics],
)
@given(data=st.binary(max_size=80))
def test_garbage_is_refused_in_one_way(decode, data: bytes) -> None:  # type: ignore[no-untyped-def]
    try:
        decode(data)
    except RecordFormatError:
        pass


def test_values_of_unknown_versions_are_refused() -> None:
    with pytest.raises(RecordFormatError, match="unknown version 9"):
        rf.decode_offset_value(b"\x00\x09" + bytes(30))
    with pytest.raises(RecordFormatError, match="unknown version -1"):
        rf.decode_group_value(b"\xff\xff" + bytes(30))
    with pytest.raises(RecordFormatError, match="no version"):
        rf.decode_key(b"\x00")


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_of_a_subscription_whatever_its_version(version: int) -> None:
    head = struct.pack(">hi", version, 2) + text("clicks") + text("views")
    tail = struct.pack(">i", -1) + (struct.pack(">i", 0) if version else b"")
    assert rf.subscription_topics(head + tail) == ["clicks", "views"]
