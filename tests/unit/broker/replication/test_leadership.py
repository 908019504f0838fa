"""Listeners of leadership."""

from __future__ import annotations

from ottla.broker.replication.leadership import LeadershipListeners
from tests.support.broker.replica_cluster import TP


def test_everybody_is_told_in_the_order_of_their_coming() -> None:
    told: list[tuple[str, int | None]] = []
    listeners = LeadershipListeners()
    for name in ("a", "b"):
        listeners.add(
            lambda _, epoch, name=name: told.append((f"{name} leads", epoch)),
            lambda _, epoch, name=name: told.append((f"{name} resigns", epoch)),
        )
    listeners.began(TP, 3)
    listeners.ended(TP, None)
    assert told == [("a leads", 3), ("b leads", 3), ("a resigns", None), ("b resigns", None)]
