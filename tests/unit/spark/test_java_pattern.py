"""Java's regular expressions for topics: the same names, or an error."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.java_pattern import PatternError, translate
from tests.support.spark.java_patterns import MATCHED, NAMES, REFUSED


@pytest.mark.parametrize("pattern", MATCHED)
def test_the_names_that_java_matches(pattern: str) -> None:
    translated = translate(pattern)
    assert [name for name in NAMES if re.fullmatch(translated, name)] == MATCHED[pattern].split()


@pytest.mark.parametrize("pattern", REFUSED, ids=lambda pattern: pattern[:12])
def test_what_cannot_be_taken_over_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(PatternError, match=re.escape(REFUSED[pattern])):
        translate(pattern)


@given(st.text(alphabet="ab(?<>=!:i-u)[]^&\\{},*+|.$pPQEdwkx01 é", max_size=12))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        re.compile(translate(text))
    except PatternError as error:
        assert str(error)


def test_a_long_pattern_takes_its_time_and_no_more() -> None:
    begun = time.process_time()
    translate("|".join(f"topic-{number}" for number in range(2_000)))
    assert time.process_time() - begun < 10
