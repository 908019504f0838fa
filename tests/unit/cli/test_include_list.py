"""Topics by pattern."""

from __future__ import annotations

import pytest

from ottla.cli.include_list import InvalidPattern, compile_include_list


def test_a_comma_means_or() -> None:
    pattern = compile_include_list(' "a, b.*" ')
    assert [name for name in ("a", "b", "bc", "ab", "c") if pattern.fullmatch(name)] == [
        "a",
        "b",
        "bc",
    ]


def test_what_is_no_expression() -> None:
    with pytest.raises(InvalidPattern, match=r"a\( is an invalid regex."):
        compile_include_list("a(")
