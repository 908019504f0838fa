"""Lines about clients that somebody makes many of."""

from __future__ import annotations

from ottla.zk.server.complaints import EVERY_MS, Complaints


def test_one_line_now_and_then_and_how_many_were_left_out():
    complaints = Complaints()
    assert complaints.line("closing a", 5) == "closing a"
    assert [complaints.line("closing b", 5 + n) for n in range(1000)] == [None] * 1000
    later = complaints.line("closing c", 5 + EVERY_MS)
    assert later == "closing c (and 1000 more like it before)"
    assert complaints.line("closing d", 5 + 2 * EVERY_MS) == "closing d"
