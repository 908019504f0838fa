"""JAAS values."""

from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.security.jaas import parse_jaas


def test_kafkas_own_example() -> None:
    module = parse_jaas(
        "org.apache.kafka.common.security.plain.PlainLoginModule required \\\n"
        '  username="admin" \n password=bare user_admin="a \\"quoted\\" ;=word";'.replace(
            "\\\n", ""
        )
    )
    assert module.name == "org.apache.kafka.common.security.plain.PlainLoginModule"
    assert module.flag == "required"
    assert module.options == {
        "username": "admin",
        "password": "bare",
        "user_admin": 'a "quoted" ;=word',
    }


def test_no_options_and_spaces() -> None:
    assert parse_jaas("  m.Module  OPTIONAL ;  ").options == {}
    assert parse_jaas("m required a = 'b c' ;").options == {"a": "b c"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "contains 0 login modules"),
        ('m required a="b"; n required;', "contains 2 login modules"),
        ('m required a="b"', "the final ';' is missing"),
        ("m perhaps;", "control flag"),
        ("m;", "a control flag is missing"),
        ("m required a;", "option a has no value"),
        ("m required a=;", "the value of a is missing"),
        ("m required =b;", "an option is missing"),
        ('m required a="b;', "quote that is not closed"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_jaas(text)


def test_a_password_is_never_in_a_message() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_jaas('m required user_a="hunter2" user_b="swordfish"')
    assert "hunter2" not in str(caught.value)
    assert "swordfish" not in str(caught.value)
