"""All pairs of states through both tables: what may be done is done, the rest is refused loudly."""

from __future__ import annotations

import itertools
import logging

import pytest

from ottla.controller import partition_machine, partition_states, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.controller.transitions import IllegalTransition, movable_partitions, movable_replicas
from ottla.types import TopicPartition, TopicPartitionReplica
from tests.support.controller.contexts import empty_context
from tests.support.controller.controlled_cluster import ControlledCluster

P, R = PartitionState, ReplicaState
VALID_PARTITION_PAIRS = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.ONLINE, P.ONLINE),
    (P.OFFLINE, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
HOSTED = (R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE)
VALID_REPLICA_PAIRS = {
    (R.NON_EXISTENT, R.NEW),
    *((state, R.ONLINE) for state in HOSTED),
    *((state, R.OFFLINE) for state in HOSTED),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}
TP = TopicPartition("t", 3)
REPLICA = TopicPartitionReplica("t", 3, 1)
TOPIC_ID = bytes(15) + b"\x07"


def context(*, strict: bool) -> ControllerContext:
    ctx = empty_context(strict_transitions=strict)
    ctx.topic_ids["t"] = TOPIC_ID
    ctx.journal.current_event = "TopicChange"
    return ctx


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("source", "target"), list(itertools.product(P, P)))
def test_partition_transitions(
    source: P, target: P, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(strict=strict)
    ctx.put_partition_state(TP, source)
    if (source, target) in VALID_PARTITION_PAIRS:
        assert movable_partitions(ctx, [TP], target) == [TP]
        assert ctx.journal.illegal_transitions == 0 and not caplog.records
        return
    text = f"change state for partition t-3 from {source.title} to {target.title}"
    if strict:
        with pytest.raises(IllegalTransition, match=text):
            movable_partitions(ctx, [TP], target)
    else:
        assert movable_partitions(ctx, [TP], target) == []
    assert ctx.partition_state(TP) is source
    check_told(ctx, caplog, text, source.title, target.title, broker=None)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(("source", "target"), list(itertools.product(R, R)))
def test_replica_transitions(
    source: R, target: R, strict: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ctx = context(strict=strict)
    ctx.put_replica_state(REPLICA, source)
    if (source, target) in VALID_REPLICA_PAIRS:
        assert movable_replicas(ctx, [REPLICA], target) == [REPLICA]
        assert ctx.journal.illegal_transitions == 0 and not caplog.records
        return
    text = f"of replica 1 for partition t-3 from {source.title} to {target.title} failed"
    if strict:
        with pytest.raises(IllegalTransition, match=text):
            movable_replicas(ctx, [REPLICA], target)
    else:
        assert movable_replicas(ctx, [REPLICA], target) == []
    assert ctx.replica_state(REPLICA) is source
    check_told(ctx, caplog, text, source.title, target.title, broker=1)


def check_told(
    ctx: ControllerContext,
    caplog: pytest.LogCaptureFixture,
    text: str,
    source: str,
    target: str,
    broker: int | None,
) -> None:
    """In the counter, in the state-change log, and in what `ottla events` shows."""
    assert ctx.journal.illegal_transitions == 1
    [record] = caplog.records
    assert (record.name, record.levelno) == ("state.change.logger", logging.ERROR)
    assert text in record.getMessage()
    [event] = ctx.journal.recent()
    assert (event.kind, event.event) == ("illegal", "TopicChange")
    assert (event.topic, event.topic_id, event.partition) == ("t", TOPIC_ID, 3)
    assert (event.broker, event.from_state, event.to_state) == (broker, source, target)
    assert event.cause == "not a valid transition, the state is kept"


def test_the_rest_of_a_batch_goes_on() -> None:
    ctx = context(strict=False)
    other = TopicPartition("t", 4)
    ctx.put_partition_state(TP, P.ONLINE)
    partition_machine.to_new(ctx, [TP, other])
    assert (ctx.partition_state(TP), ctx.partition_state(other)) == (P.ONLINE, P.NEW)
    here, there = REPLICA, TopicPartitionReplica("t", 3, 2)
    ctx.put_replica_state(here, R.ONLINE)
    ctx.put_replica_state(there, R.OFFLINE)
    replica_machine.to_deletion_ineligible(ctx, [here, there])
    assert ctx.replica_state(here) is R.ONLINE
    assert ctx.replica_state(there) is R.DELETION_INELIGIBLE
    assert ctx.journal.illegal_transitions == 2


async def test_a_strict_controller_that_meets_one_resigns(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ControlledCluster()
    await cluster.open(brokers=2)
    controller = await cluster.start_controller()
    monkeypatch.setitem(partition_states.VALID_PREVIOUS, P.NEW, frozenset())
    await cluster.create_topic("t", {0: (0, 1)})
    assert not controller.is_active
    assert controller.gauges()["controllerstats_illegaltransitions_total"] == 1
    [failure] = [record for record in caplog.records if record.exc_info]
    assert failure.levelno == logging.ERROR
    assert isinstance(failure.exc_info[1], IllegalTransition)
    with pytest.raises(AssertionError):
        await cluster.close()
