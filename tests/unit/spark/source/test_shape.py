"""From Kafka's columns to those of a query, and what becomes of malformed values."""

from dataclasses import replace

import pyarrow as pa
import pytest

from ottla.spark.errors import SourceError
from ottla.spark.formats.json_format import JsonFormat
from ottla.spark.formats.projection import Projection
from ottla.spark.options import parse_source_options
from ottla.spark.source.shape import Shape

OPTIONS = parse_source_options(
    {"kafka.bootstrap.servers": "h:1", "subscribe": "t"}, streaming=False
)
VALUES = [b'{"n":1}', None, b'{"n":"x"}', b"{"]


def shape(*columns, mode="PERMISSIVE"):
    json_format = JsonFormat(pa.struct([("n", pa.int32())]), mode)
    return Shape(replace(OPTIONS, projection=Projection(columns, json_format)), "t-0")


def rows(made, first=0):
    values = pa.array(VALUES[first:], pa.binary())
    offsets = pa.array(range(70 + first, 74), pa.int64())
    batch = pa.RecordBatch.from_arrays([values, offsets], ["value", "offset"])
    return [row for shaped in made.shaped([batch]) for row in shaped.to_pylist()]


def test_the_default_is_what_the_connector_has():
    assert Shape(OPTIONS, "t-0").needed[-1] == "timestampType"
    assert Shape(replace(OPTIONS, include_headers=True), "t-0").needed[-1] == "headers"


def test_values_become_structs():
    made = shape("value")
    assert made.needed == ("value", "offset")
    assert rows(made) == [
        {"value": {"n": 1}},
        {"value": None},
        {"value": {"n": None}},
        {"value": {"n": None}},
    ]


def test_malformed_values_are_left_out_or_end_the_query():
    dropping = shape("offset", "value", mode="DROPMALFORMED")
    assert [row["offset"] for row in rows(dropping)] == [70, 71]
    assert rows(dropping, first=2) == []
    words = "the value at offset 72 of t-0 does not fit the schema: field n is not a whole number"
    with pytest.raises(SourceError, match=words):
        rows(shape("value", mode="FAILFAST"))
    with pytest.raises(SourceError, match="offset 73 of t-0"):
        rows(shape("value", mode="FAILFAST"), first=3)
