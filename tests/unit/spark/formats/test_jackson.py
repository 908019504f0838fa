"""One JSON text as Jackson reads it; in `tests/spark/test_json_from_json.py` Spark is the judge."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.formats import jackson
from ottla.spark.formats.jackson import (
    MAX_DEPTH,
    MalformedJson,
    Members,
    Number,
    java_double,
    parse,
    render,
)

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def as_python(node):
    if isinstance(node, Members):
        return {name: as_python(child) for name, child in node}
    if isinstance(node, list):
        return [as_python(child) for child in node]
    return json.loads(node.text) if isinstance(node, Number) else node


@given(_values, st.sampled_from([None, 2]), st.booleans())
def test_what_python_writes_is_read(value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert as_python(parse(text)) == value
    assert json.loads(render(parse(text))) == value


@given(st.lists(st.sampled_from("{}[],:\"'\\ \n019.-+eEaINFtrue\x00u"), max_size=12).map("".join))
def test_both_parsers_agree(text):
    """The one in C is asked first and must not take what the other refuses."""

    def outcome(read):
        try:
            return read(text)
        except MalformedJson:
            return "malformed"

    assert outcome(parse) == outcome(jackson._parse)


def test_members_may_come_twice_and_text_after_the_value_is_not_looked_at():
    assert parse('{"a":1,"a":2} and so on') == [("a", Number("1", True)), ("a", Number("2", True))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it\\'s'", "it's"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\ud83d"', "?"),
        ("NaN", Number("NaN", False)),
        ("-INF", Number("-INF", False)),
        ("1e2", Number("1e2", False)),
    ],
)
def test_more_than_python_reads(text, value):
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1",
        '{"a"',
        '{"a":',
        '{"a":1,}',
        "{a:1}",
        "[1,]",
        "tru",
        "truex",
        '"a',
        '"\\q"',
        "",
        "}",
    ],
)
def test_what_is_malformed(text):
    with pytest.raises(MalformedJson):
        parse(text)


def test_depth_is_bounded_and_needs_no_stack():
    deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert render(parse(deep)) == deep
    with pytest.raises(MalformedJson, match="inside each other"):
        parse(f"[{deep}]")
    objects = '{"a":' * MAX_DEPTH + "1" + "}" * MAX_DEPTH
    assert render(parse(objects)) == objects
    with pytest.raises(MalformedJson, match="inside each other"):
        parse(f'{{"a":{objects}}}')
    wide = "[" + ",".join(["[]"] * (2 * MAX_DEPTH)) + "]"
    assert len(parse(wide)) == 2 * MAX_DEPTH
    with pytest.raises(MalformedJson, match="number of more than"):
        parse("1" * 1001)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("1.50", "1.5"),
        ("100.0", "100.0"),
        ("1e10", "1.0E10"),
        ("1234567.5", "1234567.5"),
        ("12345678.9", "1.23456789E7"),
        ("0.001", "0.001"),
        ("0.00012", "1.2E-4"),
        ("-0.0", "-0.0"),
        ("1e400", "Infinity"),
    ],
)
def test_numbers_as_java_writes_them(text, written):
    assert java_double(text) == written
