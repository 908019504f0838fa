"""Which watches a client has, and what answers make of them."""

from __future__ import annotations

from ottla.metadata.store import EventType, NoNodeError, WatchEvent
from ottla.zk.client.watches import ClientWatches


def ignore(event: WatchEvent) -> None:
    """A watcher that is only counted."""


def test_an_answer_decides_what_is_watched() -> None:
    watches = ClientWatches()
    watches.on_read(watches.children, "/gone", ignore)(NoNodeError.code)
    assert watches.take(EventType.CHILDREN_CHANGED, "/gone") == []
    watches.on_read(watches.children, "/there", ignore)(0)
    assert watches.take(EventType.CHILDREN_CHANGED, "/there") == [ignore]
    watches.on_exists("/gone", ignore)(NoNodeError.code)
    watches.on_exists("/there", ignore)(0)
    assert (list(watches.exists), list(watches.data)) == (["/gone"], ["/there"])
    assert watches.take(EventType.CREATED, "/gone") == [ignore]
    assert watches.take(EventType.CREATED, "/gone") == [], "a watch is spent with its event"
