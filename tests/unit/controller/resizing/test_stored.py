"""What a resize asks of the store, answered by hand."""

from __future__ import annotations

import pytest

from ottla.controller.resizing import stored
from ottla.controller.steps import GetNodes, Node, Read, Write
from ottla.metadata.resizes import ResizePhase, StoredResize
from ottla.metadata.store import Create, OpResult, Stat
from ottla.metadata.znodes import DeleteTopicZnode, TopicZnode

RESIZE = StoredResize(
    "t", b"i" * 16, "shadow", b"s" * 16, 3, 1, "murmur2", ResizePhase.COPYING, 0, 0
)


def test_a_shadow_goes_though_the_controller_has_not_heard_of_it() -> None:
    """The store broke off when it was made: an abort comes before the news of the topic."""
    steps = stored.delete_shadow(RESIZE)
    assert next(steps) == GetNodes([Read(TopicZnode.path("shadow"))])
    deletion = steps.send([Node(b"", Stat(*[0] * 11))])
    assert isinstance(deletion, Write)
    assert deletion.ops == [Create(DeleteTopicZnode.path("shadow"))]
    with pytest.raises(StopIteration):
        steps.send([OpResult()])


def test_nothing_is_asked_for_a_shadow_that_was_never_made() -> None:
    steps = stored.delete_shadow(RESIZE)
    next(steps)
    with pytest.raises(StopIteration):
        steps.send([None])
