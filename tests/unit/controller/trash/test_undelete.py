"""Which topic comes back from the trash, and which cannot."""

from __future__ import annotations

import pytest

from ottla.controller.config import ControllerConfig
from ottla.controller.context import ControllerContext
from ottla.controller.journal import Journal
from ottla.controller.trash import keeping, undelete
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopic, Kept
from ottla.runtime import SystemClock

OLD, NEW = b"o" * 16, b"n" * 16


@pytest.fixture
def ctx() -> ControllerContext:
    journal = Journal(SystemClock(), 0)
    ctx = ControllerContext(
        0, ControllerConfig(), journal, lambda: b"x" * 16, epoch=1, epoch_zk_version=0
    )
    ctx.ottla_brokers = {0, 1}
    for topic_id, deleted_ms in ((OLD, 10), (NEW, 20)):
        kept = Kept(deleted_ms, deleted_ms + 100, {0: (0, 1), 1: (1,)}, {}, 3, {0: (1,)})
        ctx.trash[topic_id] = EndedTopic("t", (0, 1), kept)
    return ctx


def chosen(found: undelete.Choice | KafkaError) -> bytes | ErrorCode:
    return found.code if isinstance(found, KafkaError) else found.topic_id


def test_the_one_that_was_deleted_last_or_the_one_that_is_meant(ctx: ControllerContext) -> None:
    assert chosen(undelete.choose(ctx, "t", None, None)) == NEW
    assert chosen(undelete.choose(ctx, "t", OLD, "u")) == OLD
    assert chosen(undelete.choose(ctx, "u", None, None)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert chosen(undelete.choose(ctx, "u", OLD, None)) is ErrorCode.UNKNOWN_TOPIC_ID


def test_names_that_cannot_be(ctx: ControllerContext) -> None:
    ctx.topics = {"t", "a.b"}
    assert chosen(undelete.choose(ctx, "t", None, None)) is ErrorCode.TOPIC_ALREADY_EXISTS
    for name in ("", "..", "a/b", "x" * 250, "a_b", "__consumer_offsets", "__ottla_lifecycle"):
        code = chosen(undelete.choose(ctx, "t", None, name))
        assert code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_not_yet_and_not_twice(ctx: ControllerContext) -> None:
    ctx.topic_ids["t"] = NEW
    assert chosen(undelete.choose(ctx, "t", NEW, "u")) is ErrorCode.OPERATION_NOT_ATTEMPTED
    entry = ctx.trash[OLD]
    assert entry.kept is not None
    ctx.trash[OLD] = entry._replace(kept=entry.kept._replace(undelete_as="u"))
    assert chosen(undelete.choose(ctx, "t", OLD, "v")) is ErrorCode.OPERATION_NOT_ATTEMPTED


def test_a_broker_that_is_not_ottlas_any_more(ctx: ControllerContext) -> None:
    ctx.ottla_brokers = {0}
    refused = undelete.choose(ctx, "t", None, None)
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.POLICY_VIOLATION
    assert "Brokers 1" in str(refused.message)


def test_whose_time_is_over(ctx: ControllerContext) -> None:
    assert keeping.next_due_ms(ctx) == 110
    assert keeping.due(ctx, 109) == [] and keeping.due(ctx, 110) == [OLD]
    ctx.topic_ids["t"] = OLD
    assert keeping.due(ctx, 500) == [NEW] and keeping.next_due_ms(ctx) == 120
