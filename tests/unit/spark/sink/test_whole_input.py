"""The end of a task's rows, and what looks like one."""

from __future__ import annotations

import io

import pytest

from ottla.spark.sink.whole_input import InputCutShort, spark_input, whole


def input_of(after_rows: bytes) -> io.BufferedReader:
    return io.BufferedReader(io.BytesIO(after_rows))


def test_rows_are_whole_where_something_follows():
    source = input_of(b"\xff\xff\xff\xfc")
    assert list(whole(iter([1, 2]), source)) == [1, 2]
    assert source.read() == b"\xff\xff\xff\xfc", "PySpark reads it afterwards"


def test_rows_that_end_with_the_connection_are_cut_short():
    rows = whole(iter([1, 2]), input_of(b""))
    assert [next(rows), next(rows)] == [1, 2]
    with pytest.raises(InputCutShort, match="cut short"):
        next(rows)


def test_outside_of_spark_there_is_nothing_to_ask():
    assert spark_input() is None
    assert list(whole(iter([1]), None)) == [1]


def test_the_input_is_found_from_below():
    code = compile("def main(infile, outfile):\n    return ask()\n", "pyspark/worker.py", "exec")
    scope = {"ask": lambda: (lambda: spark_input())()}
    exec(code, scope)
    source = input_of(b"x")
    assert scope["main"](source, None) is source
    assert scope["main"](object(), None) is None
