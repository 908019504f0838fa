"""Apache Kafka 2.8.2's own classes read our message sets, we read theirs, and both convert down."""

from __future__ import annotations

import pytest

from ottla.testing.java import missing_reason
from ottla.testing.peers import peer_jars
from ottla.wire import message_sets, records
from ottla.wire.message_sets import Message
from ottla.wire.records import Record
from tests.support.judges import need
from tests.support.peers import wire_java_cases as java_cases

pytestmark = pytest.mark.peers

_JARS = "kafka-2.8.2"
_SETS = [(magic, codec) for magic in (0, 1) for codec in range(4)]


def _answers(lines: list[str]) -> list[str]:
    need(missing_reason(_JARS))
    return java_cases.java_answers(lines, java_cases.MESSAGE_SETS_PROGRAM, peer_jars(_JARS))


def _items(count: int, offset: int) -> list[Record]:
    return [
        Record(
            None if i % 3 == 0 else b"key-%d" % i,
            None if i % 5 == 0 else b"value-%d" % i * (i % 7),
            1000 + i,
            offset=offset + i,
        )
        for i in range(count)
    ]


def _messages(data: bytes) -> list[tuple[int, Message]]:
    """Messages with the codec they were found in."""
    found: list[tuple[int, Message]] = []
    for entry in message_sets.iter_entries(data):
        assert message_sets.crc_is_valid(entry)
        outer = message_sets.read_message(entry)
        inner = message_sets.inner_messages(outer) if outer.codec else [outer]
        found += [(outer.codec, message) for message in inner]
    return found


def _java_form(codec: int, message: Message) -> str:
    time_type = -1 if message.magic == 0 else int(message.is_log_append_time)
    key, value = ("null" if part is None else part.hex() for part in (message.key, message.value))
    return f"{message.magic}:{codec}:{time_type}:{message.offset}:{message.timestamp}:{key}:{value}"


def _java_text(data: bytes) -> str:
    return " ".join(_java_form(codec, message) for codec, message in _messages(data))


def test_java_reads_our_sets_and_we_read_javas_in_every_codec() -> None:
    # Enough for several blocks of each codec.
    count, offset = 8000, 1 << 35
    items = _items(count, offset)
    ours = [
        message_sets.build_message_set(items, magic=magic, compression=codec)
        for magic, codec in _SETS
    ]
    lines = [f"read {data.hex()}" for data in ours]
    lines += [f"build {magic} {codec} {offset} {count}" for magic, codec in _SETS]
    answers = _answers(lines)
    for at, (magic, codec) in enumerate(_SETS):
        assert answers[at] == _java_text(ours[at]), (magic, codec)
        theirs = bytes.fromhex(answers[len(_SETS) + at])
        assert _messages(theirs) == _messages(ours[at]), (magic, codec)
        if codec == 0:
            assert theirs == ours[at]


def test_java_and_we_convert_down_alike() -> None:
    headers = [("h", b"1")]
    items = [item._replace(headers=headers) for item in _items(50, 0)]
    marker = records.build_marker(
        producer_id=1, producer_epoch=0, commit=True, coordinator_epoch=0, timestamp_ms=5
    )
    batches = [
        records.build_batch(items, base_offset=30, compression=codec, log_append_time_ms=time_ms)
        for codec in range(4)
        for time_ms in (None, 777)
    ]
    batches += [
        marker,
        records.build_batch(
            items[:9], base_offset=30, producer_id=7, producer_epoch=1, base_sequence=0,
            transactional=True,
        ),
    ]  # fmt: skip
    cases = [(magic, first, data) for data in batches for magic in (0, 1) for first in (0, 33, 200)]
    answers = _answers([f"down {magic} {first} {data.hex()}" for magic, first, data in cases])
    for (magic, first, data), answer in zip(cases, answers, strict=True):
        ours = message_sets.down_convert(data, magic, first)
        theirs = bytes.fromhex(answer)
        assert _messages(ours) == _messages(theirs)
        outer_ours = [message_sets.read_message(e)[:4] for e in message_sets.iter_entries(ours)]
        outer_theirs = [message_sets.read_message(e)[:4] for e in message_sets.iter_entries(theirs)]
        assert outer_ours == outer_theirs
        if records.read_header(data).codec == 0:
            assert ours == theirs
