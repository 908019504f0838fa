"""Columns that native code reads and writes are those of pure Python, errors included."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.wire import columnar, columnar_encode, records
from ottla.wire.primitives import WireError
from ottla.wire.records import Record, build_batch
from tests.support.native import FORMS, in_force, native_code
from tests.support.wire.strategies import RECORD

_END = 1 << 62


def _read(form: str, data: bytes, columns: Sequence[str]) -> list[pa.RecordBatch] | str:
    """What comes of it: rows, or the words of an error."""
    with in_force(form):
        try:
            scanned = columnar.scan(data, 0, _END, check_crcs=False)
            return list(
                columnar.decode(
                    scanned.batches,
                    topic="t",
                    partition=3,
                    start=0,
                    end=_END,
                    columns=columns,
                )
            )
        except WireError as error:
            return str(error)


def _assert_equal(data: bytes) -> bool:
    """Whether there were rows."""
    for columns in (columnar.COLUMNS, columnar.SCHEMA.names, ("offset", "headers"), ("key",)):
        oracle = _read("python", data, columns)
        found = _read("native", data, columns)
        assert type(found) is type(oracle)
        if isinstance(found, str):
            assert found == oracle
            continue
        for ours, theirs in zip(found, oracle, strict=True):
            ours.validate(full=True)
            assert ours.equals(theirs)
            assert [column.null_count for column in ours] == [c.null_count for c in theirs]
    return isinstance(found, list)


@settings(max_examples=50)
@given(
    st.lists(
        st.tuples(st.lists(RECORD, min_size=1, max_size=12), st.sampled_from([0, 0, 0, 3])),
        min_size=1,
        max_size=6,
    )
)
def test_rows_of_records_that_are_right(batches: list[tuple[list[Record], int]]) -> None:
    native_code()
    data, offset = b"", 0
    for items, codec in batches:
        data += build_batch(items, base_offset=offset, compression=codec)
        offset += len(items)
    assert _assert_equal(data)


@pytest.mark.parametrize("seed", range(2))
def test_rows_of_damaged_records(seed: int) -> None:
    """Names of headers that are no text among them: both put the same character there."""
    native_code()
    chance = random.Random(seed)
    seen = set()
    for _ in range(250):
        data = bytearray()
        for _ in range(chance.choice([1, 1, 2, 5])):
            items = [
                Record(
                    chance.choice([None, b"key"]),
                    chance.choice([None, chance.randbytes(chance.randrange(200))]),
                    chance.randrange(1 << 41),
                    chance.choice([(), (), (("name", b"1"), ("n", None))]),
                )
                for _ in range(chance.choice([1, 2, 10, 50]))
            ]
            begin = len(data)
            data += build_batch(items)
            for _ in range(chance.choice([0, 0, 1])):
                place = chance.randrange(begin + records.HEADER_BYTES, len(data))
                data[place] = chance.choice([0, 1, 2, 127, 128, 200, 255])
        seen.add(_assert_equal(bytes(data)))
    assert seen == {True, False}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(RECORD, st.sampled_from([0, 1, 5, (1 << 16) - 1, 1 << 16])),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([1, 100, 2000, 1 << 19]),
    st.booleans(),
    st.booleans(),
)
def test_batches_are_the_same_to_the_byte(
    rows: list[tuple[Record, int]], batch_bytes: int, has_keys: bool, has_headers: bool
) -> None:
    native_code()
    first = Record(b"unused", b"unused", 0, (("unused", b""),))
    items = [first, *(item for item, _ in rows)]
    # Arrow arrays may begin in the middle of their buffers.
    keys = pa.array([item.key for item in items], pa.binary()).slice(1)
    values = pa.array([item.value for item in items], pa.binary()).slice(1)
    headers = pa.array([list(i.headers) or None for i in items], columnar.HEADERS_TYPE).slice(1)
    columns = columnar_encode.Rows(
        keys if has_keys else None,
        values,
        np.array([item.timestamp for item, _ in rows], np.int64),
        headers if has_headers else None,
    )
    partitions = np.array([partition for _, partition in rows], np.int64)
    made: list[list[Any]] = []
    for form in FORMS:
        with in_force(form):
            batches = columnar_encode.encode(columns, partitions, batch_bytes=batch_bytes)
            made.append([batch._replace(body=bytes(batch.body)) for batch in batches])
    assert made[0] == made[1]


@pytest.mark.parametrize("form", FORMS)
def test_a_count_that_lies_takes_no_memory(form: str) -> None:
    """As many records as a header can say, in a few bytes."""
    data = bytearray(build_batch([Record(b"k", b"v")]))
    data[57:61] = (0x7FFFFFFF).to_bytes(4, "big")
    said = _read(form, bytes(data), columnar.COLUMNS)
    assert isinstance(said, str) and "2147483647 records in" in said
