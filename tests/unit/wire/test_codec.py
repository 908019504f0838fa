"""The schema compiler: classes, defaults, versions, and what it refuses."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.wire import messages as m
from ottla.wire.codec import Message, UnsupportedVersion, WireError
from ottla.wire.encoder import SharedList


def _all_messages() -> list[type[Message]]:
    names = list(m.api_names().values())
    return [getattr(m, name + suffix) for name in names for suffix in ("Request", "Response")]


def test_defaults_survive_every_version_of_every_api() -> None:
    checked = 0
    for kind in _all_messages():
        first, last = kind.SCHEMA.versions
        for version in range(first, last + 1):
            raw = kind().encode(version)
            assert kind.decode(raw, version) == (kind(), len(raw))
            checked += 1
    assert checked > 600


def test_class_attributes() -> None:
    assert (m.MetadataRequest.API_KEY, m.MetadataRequest.MIN_VERSION) == (3, 0)
    assert (m.MetadataRequest.MAX_VERSION, m.MetadataRequest.FLEXIBLE_FROM) == (12, 9)
    assert m.SaslHandshakeRequest.FLEXIBLE_FROM > m.SaslHandshakeRequest.MAX_VERSION
    assert m.GroupMetadataKey.API_KEY == -1


def test_unstable_versions_are_not_the_maximum() -> None:
    assert m.ShareFetchRequest.MAX_VERSION == -1
    assert m.ShareFetchResponse.MAX_VERSION == -1
    assert m.AddPartitionsToTxnRequest.MAX_VERSION == 5
    assert m.ListOffsetsRequest.MAX_VERSION == 9


def test_classes_by_api_key() -> None:
    assert m.request_class(4) is m.LeaderAndIsrRequest
    assert m.response_class(56) is m.AlterPartitionResponse
    with pytest.raises(UnsupportedVersion, match="999"):
        m.request_class(999)


def test_unknown_names_are_attribute_errors() -> None:
    for name in ("NoSuchRequest", "../Metadata", "Metadata"):
        with pytest.raises(AttributeError):
            getattr(m, name)


def test_objects_do_not_share_defaults() -> None:
    one, other = m.MetadataResponse(), m.MetadataResponse()
    one.topics.append(m.MetadataResponse.MetadataResponseTopic(name="t"))
    assert other.topics == []
    partition, fresh = m.FetchResponse.PartitionData(), m.FetchResponse.PartitionData()
    partition.current_leader.leader_id = 7
    assert fresh.current_leader.leader_id == -1


def test_decoded_objects_do_not_share_defaults() -> None:
    raw = m.FetchRequest().encode(17)
    one, _ = m.FetchRequest.decode(raw, 17)
    other, _ = m.FetchRequest.decode(raw, 17)
    one.replica_state.replica_id = 3
    assert other.replica_state.replica_id == -1


def test_repr_names_fields() -> None:
    text = repr(m.MetadataRequest.MetadataRequestTopic(name="t"))
    assert text.startswith("MetadataRequest.MetadataRequestTopic(") and "name='t'" in text


def test_equality_is_by_type_and_value() -> None:
    assert m.HeartbeatRequest(group_id="g") == m.HeartbeatRequest(group_id="g")
    assert m.HeartbeatRequest(group_id="g") != m.HeartbeatRequest(group_id="h")
    assert m.HeartbeatRequest() != m.HeartbeatResponse()


@pytest.mark.parametrize("version", [-1, 13, 32767])
def test_unknown_versions(version: int) -> None:
    with pytest.raises(UnsupportedVersion):
        m.MetadataRequest().encode(version)
    with pytest.raises(UnsupportedVersion):
        m.MetadataRequest.decode(b"", version)


def test_a_field_that_the_version_lacks_is_refused_unless_it_may_be_lost() -> None:
    refused = m.FetchRequest(forgotten_topics_data=[m.FetchRequest.ForgottenTopic()])
    with pytest.raises(UnsupportedVersion, match="forgotten_topics_data"):
        refused.encode(6)
    lost = m.FetchRequest(rack_id="a")
    assert m.FetchRequest.decode(lost.encode(10), 10)[0].rack_id == ""


def test_null_only_where_the_version_allows_it() -> None:
    assert m.MetadataRequest.decode(m.MetadataRequest(topics=None).encode(1), 1)[0].topics is None
    with pytest.raises(WireError):
        m.MetadataRequest(topics=None).encode(0)
    with pytest.raises(WireError):
        m.MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


@pytest.mark.parametrize(
    "message",
    [
        m.HeartbeatRequest(generation_id=2**31),
        m.HeartbeatRequest(group_id=b"bytes"),  # type: ignore[arg-type]
        m.HeartbeatRequest(group_id="x" * 32768),
        m.HeartbeatRequest(group_id="\ud800"),
        m.HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("version", [0, 4])
def test_values_that_do_not_fit_are_wire_errors(message: Message, version: int) -> None:
    with pytest.raises(WireError):
        message.encode(version)


def test_a_topic_id_has_16_bytes() -> None:
    topic = m.MetadataResponse.MetadataResponseTopic(name="t", topic_id=b"short")
    with pytest.raises(WireError, match="topic_id"):
        m.MetadataResponse(topics=[topic]).encode(12)


def test_long_arrays_and_strings_in_both_encodings() -> None:
    topic = m.AlterPartitionReassignmentsRequest.ReassignableTopic(name="n" * 300)
    partition = m.AlterPartitionReassignmentsRequest.ReassignablePartition(
        replicas=list(range(1000))
    )
    topic.partitions = [partition] * 200
    request = m.AlterPartitionReassignmentsRequest(topics=[topic])
    assert m.AlterPartitionReassignmentsRequest.decode(request.encode(0), 0)[0] == request
    classic = m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(
        name="n" * 300, partition_indexes=list(range(1000))
    )
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(topics=[classic] * 200)
    wide = m.WriteTxnMarkersRequest(markers=[marker])
    assert m.WriteTxnMarkersRequest.decode(wide.encode(0), 0)[0] == wide


def test_unknown_tags_are_skipped() -> None:
    raw = m.HeartbeatRequest(group_id="g").encode(4)
    assert raw.endswith(b"\x00")
    tagged = raw[:-1] + b"\x02" + b"\x05\x01a" + b"\x06\x00"
    assert m.HeartbeatRequest.decode(tagged, 4) == (m.HeartbeatRequest(group_id="g"), len(tagged))


def test_decode_reports_where_the_message_ends() -> None:
    raw = m.HeartbeatRequest(group_id="g").encode(4)
    _, end = m.HeartbeatRequest.decode(b"head" + raw + b"garbage", 4, 4)
    assert end == 4 + len(raw)


def test_large_records_are_not_copied() -> None:
    payload = memoryview(bytearray(5000))
    partition = m.FetchResponse.PartitionData(records=payload)
    topic = m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    response = m.FetchResponse(responses=[topic])
    chunks: list[bytes | bytearray | memoryview] = []
    chunks.append(response.encode_after(12, bytearray(), chunks))
    assert any(chunk is payload for chunk in chunks)
    assert b"".join(chunks) == response.encode(12)


def test_decoded_records_are_a_writable_view_of_the_frame() -> None:
    partition = m.ProduceRequest.PartitionProduceData(records=b"\x00" * 100)
    topic = m.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = bytearray(m.ProduceRequest(topic_data=[topic]).encode(9))
    decoded, _ = m.ProduceRequest.decode(memoryview(frame), 9)
    records = decoded.topic_data[0].partition_data[0].records
    assert records is not None
    records[0] = 255
    assert b"\xff" in frame


def test_a_tag_whose_size_lies_is_refused() -> None:
    raw = bytearray(m.FetchRequest(cluster_id="c").encode(12))
    at = raw.rindex(b"\x01\x00\x02\x02c")
    raw[at + 2] = 1
    with pytest.raises(WireError, match="cluster_id"):
        m.FetchRequest.decode(bytes(raw), 12)


@pytest.mark.parametrize(
    ("raw", "version", "reason"),
    [
        (struct.pack(">i", 2**31 - 1), 1, "length 2147483647"),
        (struct.pack(">i", -2), 1, "negative"),
        (b"\x80\x80\x80\x80\x08" + bytes(60), 9, "length 2147483647"),
        (b"\xff\xff\xff\xff\x7f" + bytes(60), 9, "more than an int"),
        (b"\x80\x80\x80\x80\x80\x01", 9, "five bytes"),
        (b"\x02\x03\xff\xfe\x00" + bytes(10), 9, "utf-8"),
        (b"\x00\x01\x01\x01" + b"\xff\xff\x03" + bytes(99999), 9, "tagged fields"),
        (b"\x00\x01\x01\x01" + b"\x01\x00\xff\x7f" + bytes(9), 9, "past the end"),
        (b"", 0, "not a MetadataRequest"),
    ],
)
def test_bad_bytes_give_a_reason(raw: bytes, version: int, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        m.MetadataRequest.decode(raw, version)


# Compact lengths are sent plus one: where they get a byte more.
COMPACT_LENGTHS = {
    0: b"\x01",
    125: b"\x7e",
    126: b"\x7f",
    127: b"\x80\x01",
    128: b"\x81\x01",
    16_382: b"\xff\x7f",
    16_383: b"\x80\x80\x01",
    16_384: b"\x81\x80\x01",
}


@pytest.mark.parametrize("length", COMPACT_LENGTHS)
def test_compact_lengths_where_they_get_a_byte_more(length: int) -> None:
    prefix = COMPACT_LENGTHS[length]
    content = bytes(n % 251 for n in range(length))
    topic = m.MetadataRequest.MetadataRequestTopic
    data = m.ProduceRequest.PartitionProduceData(index=1, records=content)
    cases: list[tuple[Message, int, bytes]] = [
        (m.MetadataRequest(topics=[topic(name="x" * length)]), 9, prefix + b"x" * length),
        # Characters of two bytes: it is these that count.
        (
            m.MetadataRequest(topics=[topic(name="é" * (length // 2))]),
            9,
            COMPACT_LENGTHS.get(length // 2 * 2, b"") + "é".encode() * (length // 2),
        ),
        (m.MetadataRequest(topics=[topic(name="t")] * length), 9, prefix + b"\x02t\x00" * length),
        (m.SaslAuthenticateRequest(auth_bytes=content), 2, prefix + content),
        (
            m.ProduceRequest(
                topic_data=[m.ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
            ),
            9,
            prefix + content,
        ),
        # Numbers: short arrays have a struct each, long ones are packed at once.
        (
            m.CreatePartitionsRequest(
                topics=[
                    m.CreatePartitionsRequest.CreatePartitionsTopic(
                        name="t",
                        assignments=[
                            m.CreatePartitionsRequest.CreatePartitionsAssignment(
                                broker_ids=[7] * length
                            )
                        ],
                    )
                ]
            ),
            2,
            prefix + b"\x00\x00\x00\x07" * length,
        ),
    ]
    for message, version, part in cases:
        raw = message.encode(version)
        assert part in raw
        decoded, end = type(message).decode(raw, version)
        assert (decoded, end) == (message, len(raw))
        if length:
            for cut in (len(raw) - 1, len(raw) // 2):
                with pytest.raises(WireError):
                    type(message).decode(raw[:cut], version)


@pytest.mark.parametrize("length", COMPACT_LENGTHS)
def test_sizes_of_tagged_fields_where_they_get_a_byte_more(length: int) -> None:
    """Ones that nobody knows are passed over, by their size alone."""
    size = b"\x00" if length == 0 else COMPACT_LENGTHS.get(length - 1) or _uvarint(length)
    plain = m.ApiVersionsRequest(client_software_name="n").encode(3)
    assert plain.endswith(b"\x00")
    raw = plain[:-1] + b"\x01\x63" + size + bytes(length)
    assert m.ApiVersionsRequest.decode(raw, 3)[1] == len(raw)
    with pytest.raises(WireError):
        m.ApiVersionsRequest.decode(raw[:-1] if length else raw[:-1] + b"\x01", 3)


def _uvarint(value: int) -> bytes:
    """Written by hand, beside the one that is tested."""
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + _uvarint(value >> 7)


def test_what_messages_share_is_encoded_once_for_each_version() -> None:
    """And is the same as without sharing, also where it is encoded in turns."""
    topic = m.UpdateMetadataRequest.UpdateMetadataTopicState

    def message(epoch: int, topics: list[Any]) -> m.UpdateMetadataRequest:
        return m.UpdateMetadataRequest(broker_epoch=epoch, topic_states=topics)

    topics = [topic(topic_name=f"topic-{number}") for number in range(200)]
    shared = SharedList(topics)
    for version in (6, 7):
        for epoch in (4, 5):
            plain = message(epoch, topics).encode(version)
            assert message(epoch, shared).encode(version) == plain
            in_turns = message(epoch, shared).encode_in_turns(version, bytearray(), [], len(plain))
            with pytest.raises(StopIteration) as ended:
                while True:
                    next(in_turns)
            assert ended.value.value == plain
    # Nobody looks at the structs again.
    shared.clear()
    shared += [topic(topic_name="other")] * len(topics)
    assert message(6, shared).encode(7) == message(6, topics).encode(7)
    assert message(6, SharedList([])).encode(7) == message(6, []).encode(7)
