"""`ottla bench codec`: its rows, its goals and their printed form."""

from __future__ import annotations

import json

import pytest

from ottla.bench import codec
from ottla.bench.table import Row, exit_code, print_rows


def test_a_ratio_above_one_means_better() -> None:
    assert Row("less time", 2.0, 6.0, "µs").ratio == 3.0
    assert Row("more bytes", 6.0, 2.0, "MB/s", higher_is_better=True).ratio == 3.0
    assert Row("no peer", 2.0, None, "µs").ratio is None


def test_only_a_missed_goal_is_a_failure() -> None:
    missed = Row("w", 1.0, 1.0, "µs", "goal", False)
    assert exit_code([missed._replace(holds=None), missed._replace(holds=True)]) == 0
    assert exit_code([missed._replace(holds=True), missed]) == 1


def test_json_has_the_rows_of_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        Row("encode", 2.0, 6.0, "µs", "at least 2×", True),
        Row("decode", 123.4, None, "µs", "at most 3×"),
    ]
    print_rows(rows, "json")
    assert json.loads(capsys.readouterr().out) == [
        {
            "work": "encode",
            "ours": 2.0,
            "peer": 6.0,
            "unit": "µs",
            "ratio": 3.0,
            "goal": "at least 2×",
            "holds": True,
        },
        {
            "work": "decode",
            "ours": 123.4,
            "peer": None,
            "unit": "µs",
            "ratio": None,
            "goal": "at most 3×",
            "holds": None,
        },
    ]
    print_rows(rows, "text", title="T")
    printed = capsys.readouterr().out
    assert "3.00×" in printed and "123 µs" in printed and "yes" in printed


def test_the_goals_are_those_that_were_set() -> None:
    assert (codec.METADATA_ENCODE_AT_LEAST, codec.PRODUCE_DECODE_AT_MOST) == (5.0, 3.0)


def test_a_goal_is_judged_by_the_ratio() -> None:
    row = Row("w", 1.0, 4.9, "µs")
    assert codec._judged(row, "g", 5.0).holds is False
    assert codec._judged(row._replace(peer=5.0), "g", 5.0).holds is True
    assert codec._judged(row._replace(peer=None), "g", 5.0).holds is None


def test_every_row_is_measured_beside_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "ROUNDS", 1)
    monkeypatch.setattr(codec.validation, "rows", list)
    monkeypatch.setattr(codec, "_column_rows", list)
    rows = codec.run()
    assert len(rows) == 8
    assert all(row.ours > 0 and row.peer is not None and row.peer > 0 for row in rows)
    assert len([row for row in rows if row.goal]) == 2
