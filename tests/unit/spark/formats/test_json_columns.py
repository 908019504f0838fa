"""JSON values as a struct: whatever stands in one record, no other gets its fields."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats.json_columns import JsonColumns
from ottla.spark.formats.json_format import JsonFormat

STRUCT = pa.struct(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("bad", pa.string()),
    ]
)
COLUMNS = JsonColumns(JsonFormat(STRUCT, corrupt_record="bad"))
# Good alone or good only beside others: an end missing here, a beginning there, two and none.
FRAGMENTS = [
    *('{"i":%d}', '{"i":%d}{"i":0}', '{"i":%d', ',"s":"x"}', "", " ", "\n", "null", "{}", "}"),
    *('{"i":%d}\n{"i":0}', '{"s":"', '"}', '{"s":{}', '{"i":%d}\0', '\0{"i":%d}', '{"i":%d,"s":'),
    *('{"i":%d}\0}', '{"i":%d}\0{"i":0}{"i":0}', '{"i":"%d"}', '{"s":%d}', '{"s":"}', '{"i":\n%d}'),
]


def alone(value):
    parsed = COLUMNS._one_by_one(pa.array([value], pa.binary()))
    return parsed.structs.to_pylist()[0], parsed.faults.get(0)


@given(st.lists(st.none() | st.sampled_from(FRAGMENTS), max_size=40))
def test_a_record_means_the_same_alone_and_beside_others(fragments):
    values = [
        None if text is None else (text.replace("%d", str(number))).encode()
        for number, text in enumerate(fragments)
    ]
    parsed = COLUMNS.parse(pa.array(values, pa.binary()))
    expected = [(None, None) if value is None else alone(value) for value in values]
    assert parsed.structs.to_pylist() == [row for row, _ in expected]
    assert parsed.faults == {n: fault for n, (_, fault) in enumerate(expected) if fault}


def test_one_odd_record_does_not_slow_the_others_down(monkeypatch):
    values = [b'{"i":%d}' % number for number in range(5_000)]
    values[1234] = b'{"i":"x"}'
    looked_at = []
    one_by_one = JsonColumns._one_by_one
    monkeypatch.setattr(
        JsonColumns,
        "_one_by_one",
        lambda self, piece: looked_at.append(len(piece)) or one_by_one(self, piece),
    )
    parsed = COLUMNS.parse(pa.array(values, pa.binary()))
    assert sum(looked_at) <= 8
    assert list(parsed.faults) == [1234]
    numbers = [row["i"] for row in parsed.structs.to_pylist()]
    assert numbers == [None if n == 1234 else n for n in range(5_000)]


def test_slices_and_batches_of_nothing():
    values = pa.array([b'{"i":1}', None, b'{"i":2}', b"x", b'{"i":3}'], pa.binary())
    parsed = COLUMNS.parse(values.slice(1, 3))
    assert [row and row["i"] for row in parsed.structs.to_pylist()] == [None, 2, None]
    assert list(parsed.faults) == [2]
    for empty in (values.slice(0, 0), pa.array([None, None], pa.binary())):
        assert COLUMNS.parse(empty).structs.to_pylist() == [None] * len(empty)
    assert COLUMNS.parse(values).structs.type == STRUCT


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_without_a_zone(zone):
    columns = JsonColumns(JsonFormat(STRUCT, corrupt_record="bad", time_zone=zone))
    texts = ["2024-07-01T12:00:00", "2024-07-01 12:00", "2024-07-01T12:00:00Z", "2024-7-1"]
    values = [json.dumps({"t": text}).encode() for text in texts]
    hours = [
        row["t"].hour for row in columns.parse(pa.array(values, pa.binary())).structs.to_pylist()
    ]
    assert hours == ([12, 12, 12, 0] if zone == "UTC" else [16, 16, 12, 4])


def test_hostile_sizes():
    deep = b'{"i":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    long = b'{"i":2,"s":"' + b"x" * 5_000_000 + b'"}'
    parsed = COLUMNS.parse(pa.array([deep, long, b"[" * 100_000], pa.binary()))
    rows = parsed.structs.to_pylist()
    assert rows[1]["i"] == 2 and len(rows[1]["s"]) == 5_000_000
    assert 2 in parsed.faults
