"""How many partitions a Fetch or a Produce may name.

These two are served in one go: what was read or appended first must still hold when the last is.
Who knows the cluster names partitions that are here, or were a moment ago. A quarter of a million
of others, which fit into a small request, would keep everybody else waiting for two seconds.
"""

from __future__ import annotations

from collections.abc import Sized

from ottla.broker.context.request import CloseConnection

# Beyond those that are here: a broker that has just started has yet to hear of its own.
MOST_STRANGERS = 10_000


def check_breadth(named: int, hosted: Sized) -> None:
    """Raises CloseConnection for more partitions than an honest client can have in mind. Kafka has
    no such limit, and no error for it."""
    if named > MOST_STRANGERS and named > MOST_STRANGERS + len(hosted):
        raise CloseConnection(f"{named} partitions are named, {len(hosted)} are here")
