"""Hostile bytes: only WireError comes out, and memory stays a small multiple of the frame."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest

from ottla.wire import framing, records
from ottla.wire import messages as m
from ottla.wire.codec import Message, WireError

_MEMORY_FACTOR = 64


def _samples() -> list[tuple[type[Message], int, bytes]]:
    """A filled message of each API in its first and last version."""
    samples = []
    for name in m.api_names().values():
        for suffix in ("Request", "Response"):
            kind: type[Message] = getattr(m, name + suffix)
            for version in {kind.SCHEMA.versions.first, kind.SCHEMA.versions.last}:
                message = _filled(kind, kind, kind.SCHEMA.fields, version)
                samples.append((kind, version, message.encode(version)))
    return samples


def _filled(kind: type[Message], target: Any, fields: Any, version: int) -> Any:
    made = target()
    for field in fields:
        if version not in field.versions:
            continue
        struct = kind.SCHEMA.structs.get(field.element)
        if struct is not None:
            inner = getattr(kind, struct.name)
            value = _filled(kind, inner, struct.fields, version)
            setattr(made, field.name, [value, value] if field.is_array else value)
        elif field.type == "string":
            setattr(made, field.name, "name")
        elif field.type in ("bytes", "records"):
            setattr(made, field.name, b"payload")
    return made


def _mutate(source: random.Random, raw: bytes) -> bytes:
    data = bytearray(raw)
    for _ in range(source.randrange(1, 4)):
        at = source.randrange(len(data) + 1)
        match source.randrange(4):
            case 0:
                data[at:at] = source.randbytes(source.randrange(1, 6))
            case 1:
                del data[at : at + source.randrange(1, 6)]
            case 2:
                data[at : at + 4] = source.choice([b"\x7f\xff\xff\xff", b"\xff" * 5, b"\x80" * 4])
            case 3:
                del data[at:]
    return bytes(data)


def test_mutated_messages_raise_only_wire_errors() -> None:
    source = random.Random(20)
    refused = accepted = 0
    for kind, version, raw in _samples():
        for _ in range(25):
            try:
                kind.decode(_mutate(source, raw), version)
                accepted += 1
            except WireError:
                refused += 1
    assert refused > 3000 and accepted > 300


def test_random_bytes_raise_only_wire_errors() -> None:
    source = random.Random(21)
    for kind, version, _ in _samples():
        for size in (0, 3, 40, 300):
            try:
                kind.decode(source.randbytes(size), version)
            except WireError:
                pass


def test_every_cut_of_a_message_is_refused() -> None:
    for kind, version, raw in _samples():
        for size in {0, 1, len(raw) // 2, len(raw) - 1}:
            if 0 <= size < len(raw):
                with pytest.raises(WireError):
                    kind.decode(raw[:size], version)


def test_random_headers_raise_only_wire_errors() -> None:
    source = random.Random(22)
    for _ in range(3000):
        frame = source.randbytes(source.randrange(40))
        if source.random() < 0.7:
            frame = bytes([0, source.randrange(90), 0, source.randrange(15)]) + frame
        try:
            framing.decode_request_header(frame)
        except WireError:
            pass


@pytest.mark.parametrize("codec", range(5))
def test_mutated_batches_raise_only_wire_errors(codec: int) -> None:
    source = random.Random(23 + codec)
    items = [records.Record(b"k", b"v" * i, 5, [("h", None)]) for i in range(20)]
    raw = records.build_batch(items, compression=codec)
    refused = 0
    for _ in range(400):
        data = bytearray(raw)
        for _ in range(source.randrange(1, 4)):
            data[source.randrange(len(data))] = source.randrange(256)
        if source.random() < 0.2:
            del data[source.randrange(len(data)) :]
        try:
            for _, batch in records.iter_batches(data):
                list(records.iter_records(batch, max_bytes=1 << 20))
        except WireError:
            refused += 1
    assert refused > 50


def _peak_of_decode(kind: type[Message], version: int, raw: bytes) -> int:
    kind.decode(kind().encode(version), version)
    frame = memoryview(bytearray(raw))
    tracemalloc.start()
    try:
        kind.decode(frame, version)
    except WireError:
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def _dense(kind: type[Message], version: int, count: int) -> bytes:
    """As many of the smallest elements as fit: each array of the message once."""
    message = kind()
    for field in kind.SCHEMA.fields:
        if version in field.versions and field.is_array and field.element in kind.SCHEMA.structs:
            setattr(message, field.name, [getattr(kind, field.element)()] * count)
    return message.encode(version)


def test_memory_stays_below_64_times_the_frame() -> None:
    worst = 0.0
    for name in m.api_names().values():
        for suffix in ("Request", "Response"):
            kind: type[Message] = getattr(m, name + suffix)
            raw = _dense(kind, kind.SCHEMA.versions.last, 1000)
            if len(raw) > 2000:
                ratio = _peak_of_decode(kind, kind.SCHEMA.versions.last, raw) / len(raw)
                worst = max(worst, ratio)
    assert 10 < worst < _MEMORY_FACTOR


def test_the_densest_nested_message_stays_below_64_times_the_frame() -> None:
    entry = m.DescribeClientQuotasResponse.EntryData()
    raw = m.DescribeClientQuotasResponse(entries=[entry] * 20000).encode(1)
    peak = _peak_of_decode(m.DescribeClientQuotasResponse, 1, raw)
    assert peak < _MEMORY_FACTOR * len(raw)
    topic = m.CreatePartitionsRequest.CreatePartitionsTopic(name="t")
    topic.assignments = [m.CreatePartitionsRequest.CreatePartitionsAssignment()] * 20000
    raw = m.CreatePartitionsRequest(topics=[topic]).encode(3)
    assert _peak_of_decode(m.CreatePartitionsRequest, 3, raw) < _MEMORY_FACTOR * len(raw)


def test_a_huge_count_in_a_small_frame_allocates_nothing() -> None:
    for raw, version in ((b"\x7f\xff\xff\xff" + bytes(56), 1), (b"\x80\x80\x80\x80\x08", 9)):
        assert _peak_of_decode(m.MetadataRequest, version, raw) < 64 * 1024
