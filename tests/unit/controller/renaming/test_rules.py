"""Which topic may get which name."""

from __future__ import annotations

import pytest

from ottla.controller.context import ControllerContext, Rename, Resize
from ottla.controller.renaming import rules
from ottla.errors import ErrorCode
from ottla.metadata.renames import RenamePhase, StoredRename
from ottla.metadata.resizes import ResizePhase, StoredResize
from ottla.metadata.znodes import BrokerInfo, LeaderAndIsr, ReplicaAssignment
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID, Endpoint, TopicId, TopicPartition
from tests.support.controller.contexts import empty_context

ID = b"i" * 16


@pytest.fixture
def ctx() -> ControllerContext:
    """Topic `old` on brokers 0 and 1, of which 1 is down."""
    made = empty_context()
    made.add_broker(BrokerInfo(0, (Endpoint("PLAINTEXT", "localhost", 9092),)), 1)
    made.ottla_brokers.update({0, 1})
    made.renaming_brokers.update({0, 1})
    made.topics.update({"old", "taken", "with.dots"})
    for topic in ("old", "taken", "with.dots"):
        made.topic_ids[topic] = ID
        made.set_assignment(TopicPartition(topic, 0), ReplicaAssignment((0, 1)))
    return made


def code(
    ctx: ControllerContext, topic: str = "old", name: str = "new", topic_id: TopicId = ZERO_TOPIC_ID
) -> ErrorCode | None:
    wrong = rules.objection(ctx, topic, name, topic_id)
    return None if wrong is None else wrong.code


def test_nothing_speaks_against_it(ctx: ControllerContext) -> None:
    """Not even a replica on a broker that is down, nor a partition without a leader."""
    assert code(ctx) is None
    assert code(ctx, topic_id=ID) is None
    assert code(ctx, "with.dots", "with_dots") is None  # it collides with nothing but itself


@pytest.mark.parametrize(
    ("topic", "name", "expected"),
    [
        ("old", "taken", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("old", "old", ErrorCode.TOPIC_ALREADY_EXISTS),
        ("missing", "new", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("old", "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("old", "..", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("old", "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("old", "with_dots", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("old", OFFSETS_TOPIC, ErrorCode.INVALID_REQUEST),
        (OFFSETS_TOPIC, "new", ErrorCode.INVALID_REQUEST),
        ("__ottla_lifecycle", "new", ErrorCode.INVALID_REQUEST),
    ],
)
def test_names(ctx: ControllerContext, topic: str, name: str, expected: ErrorCode) -> None:
    assert code(ctx, topic, name) is expected


def test_what_happens_to_the_topic(ctx: ControllerContext) -> None:
    assert code(ctx, topic_id=b"x" * 16) is ErrorCode.INCONSISTENT_TOPIC_ID
    resize = StoredResize(
        "old", ID, "shadow", ZERO_TOPIC_ID, 5, 2, "murmur2", ResizePhase.COPYING, 0, 17
    )
    ctx.resizes[ID] = Resize(resize)
    assert code(ctx) is ErrorCode.REASSIGNMENT_IN_PROGRESS
    ctx.resizes.clear()
    ctx.set_assignment(TopicPartition("old", 1), ReplicaAssignment((0, 1), adding=(1,)))
    assert code(ctx) is ErrorCode.REASSIGNMENT_IN_PROGRESS
    ctx.topics_to_delete.add("old")
    assert code(ctx) is ErrorCode.INVALID_TOPIC_EXCEPTION
    del ctx.topic_ids["taken"]
    assert code(ctx, "taken") is ErrorCode.UNSUPPORTED_VERSION


def test_brokers_that_do_not_know_of_renames(ctx: ControllerContext) -> None:
    ctx.renaming_brokers.discard(1)
    wrong = rules.objection(ctx, "old", "new", ZERO_TOPIC_ID)
    assert wrong is not None
    assert (wrong.code, "Brokers 1 run an Ottla" in str(wrong)) == (35, True)
    ctx.renaming_brokers.add(1)
    ctx.add_broker(BrokerInfo(7, ()), 2)  # of Apache's, without a replica
    wrong = rules.objection(ctx, "old", "new", ZERO_TOPIC_ID)
    assert wrong is not None
    assert (wrong.code, "Brokers 7 are not Ottla's" in str(wrong)) == (35, True)


def test_a_coordinator_that_is_away(ctx: ControllerContext) -> None:
    tp = TopicPartition(OFFSETS_TOPIC, 3)
    ctx.set_assignment(tp, ReplicaAssignment((1,)))
    ctx.leadership[tp] = LeaderAndIsr(1, 0, (1,), 1, 0)
    assert code(ctx) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    ctx.leadership[tp] = LeaderAndIsr(0, 1, (0,), 1, 1)
    assert code(ctx) is None


def test_one_at_a_time_and_a_bound_on_all(ctx: ControllerContext) -> None:
    assert rules.too_many(ctx, ("old", "new")) is None
    ctx.renames[ID] = Rename(ID, StoredRename("a", "new", RenamePhase.MOVING))
    assert rules.too_many(ctx, ("old", "new")) is not None
    assert rules.too_many(ctx, ("old", "newer")) is None
    for number in range(rules.MAX_RENAMES):
        topic_id = number.to_bytes(16, "big")
        stored = StoredRename(f"a{number}", f"b{number}", RenamePhase.MOVING)
        ctx.renames[topic_id] = Rename(topic_id, stored)
    assert rules.too_many(ctx, ("old", "newer")) is not None
