"""Records one by one: what fits a type, and what a record is that has something else."""

from decimal import Decimal

import pyarrow as pa
import pytest

from ottla.spark.formats.datetimes import zone_of
from ottla.spark.formats.json_rows import RowReader

INNER = pa.struct([("x", pa.int32()), ("y", pa.string())])
TYPES = {
    "y": pa.int8(),
    "i": pa.int32(),
    "l": pa.int64(),
    "d": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "p": pa.decimal128(5, 2),
    "t": pa.timestamp("us", tz="UTC"),
    "a": pa.date32(),
    "li": pa.list_(pa.int32()),
    "o": INNER,
    "lo": pa.list_(INNER),
    "m": pa.map_(pa.string(), pa.int32()),
}
READER = RowReader(pa.struct(list(TYPES.items())), zone_of("UTC"))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('{"y":200}', {"y": -56}),
        ('{"s":1.50}', {"s": "1.5"}),
        ('{"s":{"a":[1, null]}}', {"s": '{"a":[1,null]}'}),
        ('{"d":"-INF"}', {"d": float("-inf")}),
        ('{"d":-0}', {"d": 0.0}),
        ('{"p":1.005}', {"p": Decimal("1.01")}),
        ('{"p":"1,0.5"}', {"p": Decimal("10.50")}),
        ('{"t":5}', {"t": 5_000_000}),
        ('{"a":"1970-1-2"}', {"a": 1}),
        ('{"i":1,"i":2}', {"i": 2}),
        ('{"m":{"k":1,"l":null}}', {"m": [("k", 1), ("l", None)]}),
        ('{"unknown":[{}]}', {}),
    ],
)
def test_good_records(text, values):
    row = READER.read(text)
    assert (row.values, row.fault) == (values, None)


@pytest.mark.parametrize(
    ("text", "values", "fault"),
    [
        ('{"i":"1","l":2}', {"l": 2}, "field i is not a whole number"),
        ('{"i":1,"i":"x"}', {"i": 1}, "field i is not a whole number"),
        ('{"i":2147483648}', {}, "field i is a number of more than 32 bits"),
        ('{"b":"true"}', {}, "field b is neither true nor false"),
        ('{"p":1000}', {}, "field p does not fit into decimal(5,2)"),
        ('{"p":1e999999999}', {}, "field p does not fit into decimal(5,2)"),
        ('{"t":""}', {}, "field t is not a timestamp"),
        ('{"a":5}', {}, "field a is not a date"),
        ('{"li":[1,"x"],"i":3}', {"i": 3}, "field li is not a whole number"),
        ('{"o":{"x":"x","y":"z"}}', {"o": {"y": "z"}}, "field x is not a whole number"),
        ('{"lo":[{"x":"x"},{"x":1}]}', {"lo": [{}, {"x": 1}]}, "field x is not a whole number"),
        ('{"o":[]}', {}, "field o is not an object"),
        ('{"li":{}}', {}, "field li is not an array"),
        ('{"m":{"a":1,"b":"x"}}', {}, "field m is not a whole number"),
        ('{"i":1', {}, "it is not a JSON object: neither a comma nor an end at character 6"),
        ('[{"i":1}]', {}, "it is not a JSON object: not an object"),
    ],
)
def test_bad_records_keep_what_fits(text, values, fault):
    row = READER.read(text)
    assert (row.values, row.fault) == (values, fault)


@pytest.mark.parametrize("text", ["", " \n\t\r"])
def test_blank_values_are_null_and_not_bad(text):
    assert READER.read(text) == (None, None)
