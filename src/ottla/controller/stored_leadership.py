"""Reading and writing partition states in bulk: the rounds that both state machines share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.controller import election
from ottla.controller.context import ControllerContext
from ottla.controller.steps import Steps, get_paths, write
from ottla.metadata.store import BadVersionError, SetData, StoreError
from ottla.metadata.znodes import LeaderAndIsr, TopicPartitionStateZnode
from ottla.types import TopicPartition

# A write that loses against another writer reads again and tries again. Kafka does so forever;
# nobody but this controller writes states, so a handful of rounds is already suspicious.
MAX_WRITE_ROUNDS = 10


@dataclass(slots=True)
class StateWrites:
    """What became of a round of state writes."""

    done: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    stale: list[TopicPartition] = field(default_factory=list)
    failed: dict[TopicPartition, StoreError] = field(default_factory=dict)


class Dated(NamedTuple):
    """A stored state and the zxid of the write that made it."""

    state: LeaderAndIsr
    mzxid: int


# Half the time of Dated(...) and LeaderAndIsr(...): tens of thousands at a failover.
_dated: Callable[[type[Dated], tuple[LeaderAndIsr, int]], Dated] = tuple.__new__
_at_version: Callable[[type[LeaderAndIsr], tuple[Any, ...]], LeaderAndIsr] = tuple.__new__


def read_dated_states(partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, Dated]]:
    """Stored states; partitions without one, or with garbage in it, are left out."""
    listed = list(partitions)
    nodes = yield from get_paths([TopicPartitionStateZnode.path(tp) for tp in listed])
    states = {}
    # Tens of thousands of partitions have a few dozen different states, but for their versions.
    decoded: dict[bytes | None, LeaderAndIsr | None] = {}
    for tp, node in zip(listed, nodes, strict=True):
        if node is not None:
            data, stat = node
            if data not in decoded:
                decoded[data] = TopicPartitionStateZnode.decode(data, stat)
            state = decoded[data]
            if state is not None:
                if state.zk_version != stat.version:
                    state = _at_version(LeaderAndIsr, (*state[:4], stat.version))
                states[tp] = _dated(Dated, (state, stat.mzxid))
    return states


def read_states(partitions: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    dated = yield from read_dated_states(partitions)
    return {tp: found.state for tp, found in dated.items()}


def read_states_to_move(
    ctx: ControllerContext, partitions: Iterable[TopicPartition]
) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """For partitions that go on under another name. There their states have a new age, by which
    nobody could tell any more who of the ISR was away unseen before: it is told here (ADR 22)."""
    states = {}
    for tp, dated in (yield from read_dated_states(partitions)).items():
        state = dated.state
        states[tp] = without_returned(ctx, tp, state.isr, dated) or state
    return states


def without_returned(
    ctx: ControllerContext, tp: TopicPartition, replicas: tuple[int, ...], dated: Dated
) -> LeaderAndIsr | None:
    """A state without members of the ISR that registered after it was written, the others in the
    order of `replicas`; None where it stays as it is."""
    state, mzxid = dated
    returned = [member for member in state.isr if ctx.broker_epochs.get(member, -1) > mzxid]
    if not returned:
        return None
    return election.without_returned(replicas, state, returned, ctx.online_check(tp))


def states_of(
    ctx: ControllerContext, partitions: list[TopicPartition], *, just_read: bool
) -> Steps[dict[TopicPartition, LeaderAndIsr]]:
    """The stored states, from memory where they were `just_read`: each write names the version it
    was decided on, so that what is outdated after all is refused, and read."""
    if just_read:
        return {tp: state for tp in partitions if (state := ctx.leadership.get(tp)) is not None}
    return (yield from read_states(partitions))


def write_states(
    ctx: ControllerContext, updates: Mapping[TopicPartition, LeaderAndIsr]
) -> Steps[StateWrites]:
    """Sets each state at its own version, under this controller's epoch, and remembers it."""
    listed: dict[TopicPartition, LeaderAndIsr] = {}
    # As in reading: thousands of partitions have a few dozen different states.
    encoded: dict[tuple[object, ...], bytes] = {}
    ops = []
    for tp, state in updates.items():
        if state.controller_epoch != ctx.epoch:
            state = state._replace(controller_epoch=ctx.epoch)
        listed[tp] = state
        but_version = state[:4]
        data = encoded.get(but_version)
        if data is None:
            data = encoded[but_version] = TopicPartitionStateZnode.encode(state)
        ops.append(SetData(TopicPartitionStateZnode.path(tp), data, state.zk_version))
    results = yield from write(ops)
    outcome = StateWrites()
    for (tp, state), result in zip(listed.items(), results, strict=True):
        if result.error is None and result.stat is not None:
            outcome.done[tp] = _at_version(LeaderAndIsr, (*state[:4], result.stat.version))
        elif isinstance(result.error, BadVersionError):
            outcome.stale.append(tp)
        else:
            outcome.failed[tp] = result.error or StoreError(TopicPartitionStateZnode.path(tp))
    ctx.leadership.update(outcome.done)
    return outcome


def raise_epochs(
    ctx: ControllerContext, partitions: Iterable[TopicPartition]
) -> Steps[set[TopicPartition]]:
    """Raises leader epochs and nothing else, so that brokers take a new LeaderAndIsr for a
    partition whose leader and ISR stay (KafkaController.updateLeaderEpoch); those that did."""
    raised: set[TopicPartition] = set()
    remaining = list(partitions)
    for _ in range(MAX_WRITE_ROUNDS):
        stored = yield from read_states(remaining)
        updates = {
            tp: state._replace(leader_epoch=state.leader_epoch + 1)
            for tp, state in stored.items()
            if state.controller_epoch <= ctx.epoch
        }
        for tp in remaining:
            if tp not in updates:
                ctx.journal.error(f"The leader epoch of {tp} cannot be raised: it has no state")
        outcome = yield from write_states(ctx, updates)
        raised.update(outcome.done)
        for tp, error in outcome.failed.items():
            ctx.journal.error(f"The leader epoch of {tp} cannot be raised: {error!r}")
        remaining = outcome.stale
        if not remaining:
            break
    return raised
