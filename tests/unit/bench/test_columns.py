"""What columns cost: every row measures something, native code beside pure Python."""

from __future__ import annotations

import pytest

from ottla.bench import columns
from tests.support.native import FORMS, in_force


@pytest.mark.parametrize("form", FORMS)
def test_every_row_is_measured(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "ROUNDS", 1)
    monkeypatch.setattr(columns, "RECORDS", 500)
    monkeypatch.setattr(columns, "LONG_KEY_BYTES", 1000)
    with in_force(form):
        rows = columns.rows()
    assert len(rows) == 11
    for row in rows:
        assert row.ours > 0 and row.unit in ("ns", "MB/s")
        assert (row.peer is None) == (form == "python")
    assert [row.goal for row in rows if row.goal] == (
        ["at least 500 MB/s"] if form == "native" else []
    )
