"""Typed config definitions: parsing, error texts, the properties format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.definitions import (
    AtLeast,
    ConfigDef,
    ConfigError,
    ConfigType,
    ConfigValue,
    InvalidConfigValue,
    OneOf,
    ProtocolVersion,
    ThrottledReplicas,
    UpdateMode,
    Validator,
    format_double,
    format_properties,
    nearest_name,
    parse_properties,
    parse_table,
    parse_type,
    to_text,
)


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (ConfigType.INT, " 7 ", 7),
        (ConfigType.INT, "+7", 7),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.DOUBLE, "1.5", 1.5),
        (ConfigType.DOUBLE, "1E308", 1e308),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.STRING, "  a b ", "a b"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, "a , b,", ("a", "b", "")),
        (ConfigType.CLASS, "a.b:C", "a.b:C"),
    ],
)
def test_values_parse_as_in_kafka(type_: ConfigType, text: str, value: ConfigValue) -> None:
    assert parse_type("x", text, type_) == value


@pytest.mark.parametrize(
    ("type_", "text", "reason"),
    [
        (ConfigType.INT, "ten", "Not a number of type INT"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.INT, "1.0", "Not a number of type INT"),
        (ConfigType.INT, "", "Not a number of type INT"),
        (ConfigType.INT, "--1", "Not a number of type INT"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.LONG, "9223372036854775808", "Not a number of type LONG"),
        (ConfigType.LONG, "9" * 5000, "Not a number of type LONG"),
        (ConfigType.DOUBLE, "half", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
        (ConfigType.BOOLEAN, "yes", "Expected value to be either true or false"),
    ],
)
def test_bad_values_have_kafkas_text(type_: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfigValue) as caught:
        parse_type("some.name", text, type_)
    assert str(caught.value) == f"Invalid value {text} for configuration some.name: {reason}"


@pytest.mark.parametrize(
    ("validator", "value", "text"),
    [
        (AtLeast(14), 13, "Invalid value 13 for configuration n: Value must be at least 14"),
        (AtLeast(0, 1), 1.5, "Invalid value 1.5 for configuration n: Value must be no more than 1"),
        (AtLeast(0), None, "Invalid value null for configuration n: Value must be non-null"),
        (
            OneOf(("a", "b")),
            "c",
            "Invalid value c for configuration n: String must be one of: a, b",
        ),
        (
            OneOf(("a", "b")),
            ("a", "x"),
            "Invalid value x for configuration n: String must be one of: a, b",
        ),
        (
            ThrottledReplicas(),
            ("0:1", "x"),
            "Invalid value 0:1,x for configuration n: n must be the literal '*' or a list of "
            "replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],"
            "...",
        ),
        (
            ProtocolVersion(),
            "9.9",
            "Invalid value 9.9 for configuration n: Version `9.9` is not a valid version",
        ),
    ],
)
def test_validators_have_kafkas_text(validator: Validator, value: ConfigValue, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validator.check("n", value)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    "version", ["2.8-IV1", "2.8", "2.8.2", "0.10.0", "0.10.0-IV1", "0.8.2.1", "2.7-IV2", "1.0"]
)
def test_known_protocol_versions_pass(version: str) -> None:
    ProtocolVersion().check("n", version)


@pytest.mark.parametrize("version", ["2.8-IV2", "3.0", "", "2", "0.9", "2.8-IVx", "0.8.2-IV0"])
def test_unknown_protocol_versions_fail(version: str) -> None:
    with pytest.raises(ConfigError):
        ProtocolVersion().check("n", version)


@pytest.mark.parametrize("value", [(), ("*",), ("0:1",), ("0:1", "12:3")])
def test_throttled_replicas_pass(value: tuple[str, ...]) -> None:
    ThrottledReplicas().check("n", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (-1.25e-5, "-1.25E-5"),
        (123456789.0, "1.23456789E8"),
        (0.0001, "1.0E-4"),
        (float("inf"), "Infinity"),
    ],
)
def test_doubles_print_as_in_java(value: float, text: str) -> None:
    assert format_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_doubles_read_back(value: float) -> None:
    assert parse_type("x", format_double(value), ConfigType.DOUBLE) == value


def test_values_become_text() -> None:
    values: list[ConfigValue] = [None, True, False, 5, 0.5, "a", ("a", "b"), ()]
    assert [to_text(v) for v in values] == [None, "true", "false", "5", "0.5", "a", "a,b", ""]


def test_a_table_becomes_definitions() -> None:
    table = """
    a.b I 5 >=1 cw
      First.
    c Str null
      Second.
    d List "" in:x,y pb
      Third.
    e L LMAX 0..9
      Fourth.
    """
    parsed = parse_table(table)
    assert parsed["a.b"] == ConfigDef(
        "a.b", ConfigType.INT, 5, AtLeast(1), UpdateMode.CLUSTER_WIDE, "First."
    )
    assert parsed["c"].default is None and parsed["c"].mode is UpdateMode.READ_ONLY
    assert parsed["d"].default == () and parsed["d"].validator == OneOf(("x", "y"))
    assert parsed["e"].default == 2**63 - 1 and parsed["e"].validator == AtLeast(0, 9)


def test_properties_files_are_javas() -> None:
    text = (
        "# comment\n! another\n\n  a=1\nb : two words \nc three\nd=x\\\n    y\\\n  z\n"
        "e\\=f\\:g=h\\\\i\n" + "u=\\u0041\\t|\n" + "empty\nk==v\na=2\nlast=open\\"
    )
    assert parse_properties(text) == {
        "a": "2",
        "b": "two words ",
        "c": "three",
        "d": "xyz",
        "e=f:g": "h\\i",
        "u": "A\t|",
        "empty": "",
        "k": "=v",
        "last": "open",
    }


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_properties_come_back_as_they_were_written(properties: dict[str, str]) -> None:
    written = format_properties(properties)
    assert parse_properties(written) == properties
    assert written.isascii() and written.count("\n") == len(properties)


def test_values_stay_readable() -> None:
    assert format_properties({"log.dirs": "/a b/c#1", "x": " C:\\d", "k=": "v\n=é"}) == (
        "log.dirs=/a b/c#1\nx=\\ C:\\\\d\nk\\==v\\n=\\u00e9\n"
    )


def test_half_a_character_is_replaced() -> None:
    assert parse_properties("a=\\ud83d\\ude00 \\ud83d") == {"a": "😀 \ufffd"}


def test_a_broken_escape_is_named() -> None:
    with pytest.raises(ConfigError, match="Malformed"):
        parse_properties("a=\\u00zz")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    assert all(isinstance(value, str) for value in properties.values())


def test_the_nearest_name_is_suggested() -> None:
    assert nearest_name("brokr.id", ["broker.id", "log.dirs"]) == "broker.id"
    assert nearest_name("zzzzz", ["broker.id", "log.dirs"]) is None
