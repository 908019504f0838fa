"""What looking at records costs: every row measures something."""

from __future__ import annotations

import pytest

from ottla.bench import validation


def test_every_row_is_a_time_per_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "ROUNDS", 1)
    rows = validation.rows()
    assert len(rows) == 7
    for row in rows:
        assert row.ours > 0 and row.unit == "ns" and "per record" in row.work
