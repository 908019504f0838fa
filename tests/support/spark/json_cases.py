"""JSON values that a reader may get wrong, and what Spark's from_json makes of any."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types as kinds
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

FIELDS = (
    "s STRING, b BOOLEAN, y TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, "
    "p DECIMAL(10,2), t TIMESTAMP, a DATE, li ARRAY<INT>, lt ARRAY<TIMESTAMP>, "
    "o STRUCT<x: INT, y: STRING, z: ARRAY<STRUCT<k: DATE>>>, _corrupt_record STRING"
)
NAMES = ("s", "b", "y", "h", "i", "l", "f", "d", "p", "t", "a", "li", "lt", "o", "m")
FIELDS_WITH_MAP = f"{FIELDS}, m MAP<STRING, INT>"

# Each in every column: right for some, wrong for others.
LITERALS = (
    *("null", "true", "false", "0", "1", "-1", "127", "128", "200", "255", "256", "-129"),
    *("32767", "32768", "2147483647", "2147483648", "-2147483649", "9223372036854775807"),
    *("9223372036854775808", "123456789012345678901234567890", "1.0", "1.5", "-0.0", "1e2", "1E-7"),
    *("1.005", "99999999.994", "99999999.995", "1e400", "-1e400", "1e-400", "0.1", "3.4e39"),
    *("16777217", "0.001", "12345678.9", "NaN", "Infinity", "-Infinity", "+INF", "-INF"),
    *("+Infinity", "01", "+1", ".5", "1.", "1e", "--1", "tru", "nul", "truex", "undefined"),
    *('""', '"x"', '"1"', '"1.5"', '"1,000.5"', '"true"', '"NaN"', '"-INF"', '"Infinity"'),
    *('"\\u00e4\\ud83d\\ude00"', '"\\ud800x"', '"\\u0000"', '"a\\/b\\n\\"\\\\"', '"ä😀"', '"a\tb"'),
    *('"\\q"', '"\\u12"', '"unended', "'single'", "'it\\'s'", "'\"'", '"\x7f"', "'", '"\'"'),
    *("[]", "{}", "[1, 2, null]", '[1,"x"]', '["2020-01-01T00:00:00Z"]', '[{"k":"2020-02-30"}]'),
    *('{"x":1,"y":"z"}', '{"x":"no","y":5}', '{"z":[{"k":"2021-03-04"},{},null]}', '{"x":1,"x":2}'),
    *('{"z":[{"k":5}]}', '{"z":[7]}', '{"y":{"q":[1,2.50,1e10,{"e":"\\u0007"}]}}', '{"x":null}'),
    *('{"a":1,"b":2}', '{"a":1,"b":"no"}', "[[1],[2]]", '{"a":null}', "[1,", '{"x":'),
    *('"2020-01-02"', '"2020-1-2"', '"2020"', '"2020-02"', '"2020-02-30"', '"2019-02-29"'),
    *('"2020-01-02T03:04:05Z"', '"2020-01-02 03:04:05"', '"2020-01-02T03:04:05.123456789Z"'),
    *('"2020-01-02T03:04:05.1+02:00"', '"2020-01-02T03:04:05+0200"', '"2020-01-02T03:04:05+02"'),
    *('"2020-01-02 03"', '"2020-01-02 03:04"', '"2020-01-02 03:04Z"', '"2020-01-02 03Z"'),
    *('"2020-01-02T03:04:05 Europe/Zurich"', '"2020-01-02T24:00:00Z"', '"2020-01-02T03:04:05GMT"'),
    *('" 2020-01-02 "', '"2020-01-02T"', '"2020-01-02Tx"', '"0001-01-01"', '"9999-12-31"'),
    *('"10000-01-01"', '"-0001-01-01"', '"1582-10-10"', '"2020-01-02T03:04:05.Z"', '"12345"'),
    *('"2020-01-02T03:04:05+1:00"', '"2020-01-02T03:04:05+19:00"', '"2020-01-02T03:04:60Z"'),
    *('"2020-01-02 3:4:5"', '"+2020-01-02"', '"2020-01-02T03:04:05.123456Z"', '"1700000000"'),
    *("1700000000", "-1", "1700000000000000000", '"5"', '"-5"', '"2020-01-02T03:04:05UTC+3"'),
)

# Whole values.
WHOLE = (
    *("", " ", "\n", "null", "true", "1", '"x"', "[]", "[1]", '[{"i":1},{"i":2}]', "{}", " {} "),
    *('{"i":1}{"i":2}', '{"i":1} x', '{"i":1}\n{"i":2}', '{\n"i"\n:\n1\n}', '{"i":1', ',"s":"y"}'),
    *('{"i":1,}', '{"i" 1}', "{i:1}", '{"i":1]', "{'i':1}", '{"i":1,"i":"x"}', '{"i":"x","i":1}'),
    *('{"i":1,"i":2}', '{"I":1}', '{"\\u0069":1}', '{"unknown":{"i":1},"i":2}', "\ufeff{}"),
    *('{"i":1}\0', '\0{"i":1}', '{"i":\x001}', '{"_corrupt_record":"x","i":1}', '{"i":1}}', "}{"),
    *('{"":1,"i":2}', '{"o":{"x":1},"o":null}', '{"o":{"x":1},"o":{"y":"b"}}', "{", "}", "[", '"'),
    *('{"i":1}/*c*/', '/*c*/{"i":1}', '{"i":/*c*/1}', '{"i":1,"x":01}', '{"i":1,"x":"\\q"}'),
    '{"i":-0,"l":-0}',
    '{"i":1,"x":' + "[" * 900 + "]" * 900 + "}",
)


def hard_values() -> list[bytes]:
    values = [f'{{"l":7,"{name}":{text},"h":5}}'.encode() for text in LITERALS for name in NAMES]
    values += [text.encode() for text in WHOLE]
    return [
        *values,
        b'{"s":"\xff\xfe","i":1}',
        b'{"i":1,"x":"\xc3"}',
        b"\xff",
    ]


_member = st.tuples(st.sampled_from((*NAMES, "x")), st.sampled_from(LITERALS))
_document = st.builds(
    lambda members, gap: (
        "{" + f",{gap}".join(f'"{name}":{gap}{text}' for name, text in members) + "}"
    ),
    st.lists(_member, max_size=4),
    st.sampled_from(("", " ", "\n")),
)
_cut = st.builds(
    lambda text, at, more: text[: at % (len(text) + 1)] + more,
    _document,
    st.integers(0, 200),
    st.sampled_from(("", "}", "{", '"', ",", "]", '{"i":1}')),
)
documents = st.lists(st.one_of(_document, _document, _document, _cut), min_size=20, max_size=150)


def by_spark(spark: SparkSession, values: list[bytes | None], fields: str) -> pa.Array:
    """What Spark makes of the values."""
    frame = spark.createDataFrame(
        [(number, value) for number, value in enumerate(values)], "n INT, v BINARY"
    )
    parsed = from_json(col("v").cast("string"), fields, {"timeZone": "UTC"})
    table = frame.select("n", parsed.alias("v")).coalesce(1).sortWithinPartitions("n").toArrow()
    return table.column("v").combine_chunks()


def plain(structs: pa.Array) -> list[str]:
    """Rows that can be compared: times as numbers, NaN like NaN, and of what is not UTF-8 as much
    as there is."""
    return [repr(_text(row)) for row in structs.cast(_numbers(structs.type)).to_pylist()]


def _text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _text(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_text(child) for child in value]
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _numbers(kind: pa.DataType) -> pa.DataType:
    if kinds.is_struct(kind):
        return pa.struct([pa.field(f.name, _numbers(f.type)) for f in kind])
    if kinds.is_map(kind):
        return kind
    if kinds.is_list(kind):
        return pa.list_(pa.field("element", _numbers(kind.value_type)))
    if kinds.is_timestamp(kind):
        return pa.int64()
    if kinds.is_string(kind):
        return pa.binary()
    return pa.int32() if kinds.is_date(kind) else kind
