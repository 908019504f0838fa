"""Kafka 3.9's own Java classes as the oracle: every message and version, byte for byte."""

from __future__ import annotations

import pytest
import wire_java_cases as java_cases

from ottla.testing.peers import peers_required

pytestmark = pytest.mark.peers


def _need_java() -> None:
    reason = java_cases.missing()
    if reason is not None and peers_required():
        pytest.fail(reason)
    if reason is not None:
        pytest.skip(reason)


def test_every_message_has_the_bytes_of_kafkas_classes() -> None:
    _need_java()
    cases = list(java_cases.all_cases())
    answers = java_cases.java_answers([java_cases.case_line(case) for case in cases])
    assert len(answers) == len(cases) > 1900
    wrong = []
    for (kind, version, message), answer in zip(cases, answers, strict=True):
        raw = message.encode(version)
        decoded, end = kind.decode(raw, version)
        if answer != f"ok {raw.hex()}" or decoded != message or end != len(raw):
            wrong.append((kind.__name__, version, answer[:100]))
    assert wrong == []


def test_the_fixture_of_the_unit_tests_is_what_java_says_today() -> None:
    _need_java()
    rows = java_cases.FIXTURE.read_text(encoding="utf-8").splitlines()
    lines, hexes = zip(*(row.rsplit("\t", 1) for row in rows), strict=True)
    assert java_cases.java_answers(list(lines)) == [f"ok {text}" for text in hexes]
    assert list(lines) == [java_cases.case_line(case) for case in java_cases.fixture_cases()]
