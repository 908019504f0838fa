"""Bytes to lines, lines to records, records to lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.data import produce
from ottla.cli.data.produce import Lines
from ottla.cli.data.record_text import (
    BadLine,
    BadProperty,
    Columns,
    TextFormat,
    json_line,
    parse_json_line,
    with_properties,
)
from ottla.client.fetch import FetchedRecord
from ottla.errors import OttlaError
from ottla.types import TopicPartition
from ottla.wire.records import Record, build_batch, iter_records

TP = TopicPartition("t", 1)
some_bytes = st.none() | st.binary(max_size=20)


@given(st.lists(st.binary(max_size=8)))
def test_lines_do_not_depend_on_how_bytes_arrive(chunks: list[bytes]) -> None:
    lines = Lines()
    found = [line for chunk in chunks for line in lines.feed(chunk)] + list(lines.last())
    *whole, last = b"".join(chunks).split(b"\n")
    expected = [line.removesuffix(b"\r") for line in whole]
    assert found == expected + ([last.removesuffix(b"\r")] if last else [])


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce, "MAX_LINE_BYTES", 10)
    lines = Lines()
    assert [*lines.feed(b"12345"), *lines.feed(b"67890\n1234")] == [b"1234567890"]
    with pytest.raises(OttlaError, match="a line is longer than 10 bytes"):
        list(lines.feed(b"567890a"))


def test_timestamps_at_the_edges_make_a_batch() -> None:
    times = [-1, 2**62]
    items = [parse_json_line(b'{"timestamp": %d}' % time, 9)[0] for time in times]
    assert [record.timestamp for record in iter_records(build_batch(items))] == times


@given(some_bytes, some_bytes, st.lists(st.tuples(st.text(max_size=5), some_bytes), max_size=3))
def test_json_lines_give_the_same_record(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = json_line(FetchedRecord(TP, 5, 77, key, value, headers))
    assert line.count(b"\n") == 1
    assert parse_json_line(line, 1) == (Record(key, value, 77, headers), 1)


def test_json_of_other_kinds() -> None:
    record, partition = parse_json_line(b'{"value": {"a": [1, null]}, "headers": {"h": 5}}', 9)
    assert record == Record(None, b'{"a":[1,null]}', 9, [("h", b"5")]) and partition is None
    for line in (
        b"", b"5", b'{"key": 1', b'{"nope": 1}', b'{"partition": "1"}', b'{"timestamp": true}',
        b'{"headers": [1]}', b'{"value": {"base64": "?"}}', b'{"value": "\\ud800"}',
        b'{"headers": ["ab"]}', b'{"headers": [[1, "a"]]}', b'{"headers": 5}', b'{"value": NaN}',
        b'{"timestamp": 99999999999999999999}', b'{"timestamp": -2}',
    ):  # fmt: skip
        with pytest.raises(BadLine):
            parse_json_line(line, 9)


def test_text_lines() -> None:
    assert TextFormat().parse(b"a\tb", 3) == (Record(None, b"a\tb", 3, ()), None)
    everything = TextFormat(b"=>", has_headers=True, null_marker=b"NULL")
    assert everything.parse(b"h:1,i:\tk=>v=>w", 3)[0] == Record(
        b"k", b"v=>w", 3, [("h", b"1"), ("i", b"")]
    )
    assert everything.parse(b"\tNULL=>NULL", 3)[0] == Record(None, None, 3, ())


def test_columns_in_the_order_of_kafkas_console() -> None:
    record = FetchedRecord(TP, 5, 77, None, b"v", [("h", None)], is_append_time=True)
    assert Columns().line(record) == b"v\n"
    line = Columns(True, True, True, True, True, separator=b"|").line(record)
    assert line == b"LogAppendTime:77|Partition:1|Offset:5|h:null|null|v\n"
    bare = record._replace(headers=(), is_append_time=False)
    assert Columns(headers=True, timestamps=True).line(bare) == b"CreateTime:77\tNO_HEADERS\tv\n"
    assert json.loads(json_line(bare))["timestamp_type"] == "CreateTime"


def test_columns_in_kafkas_words() -> None:
    record = FetchedRecord(TopicPartition("t", 1), 5, 77, None, b"v", [("a", b"1"), ("b", None)])

    def line(*properties: str) -> bytes:
        return with_properties(Columns(), properties).line(record)

    assert line("print.key=true") == b"null\tv\n"
    assert line("print.key=TRUE", "null.literal=-", "key.separator==") == b"-=v\n"
    assert line("print.headers=true", "headers.separator=;") == b"a:1;b:null\tv\n"
    assert line("print.partition=true", "print.value=false") == b"Partition:1\n"
    assert line("print.offset=true", "line.separator=!") == b"Offset:5\tv!"
    assert line("print.value=no") == b""
    assert line("print.timestamp=true", "print.timestamp=false") == b"v\n"
    assert line("value.deserializer=org.apache.kafka.common.serialization.StringDeserializer") == (
        b"v\n"
    )
    for refused in ("print.keys=true", "print", "key.deserializer=x.LongDeserializer"):
        with pytest.raises(BadProperty):
            line(refused)
