"""The way of a rename through the brokers.

FENCING: every coordinator lets no new transaction at the topic and says how many are open. When
none is, the names are swapped in the store and brokers are told in the order that every broker
keeps: LeaderAndIsr (the log gets its new name), UpdateMetadata (the old name goes), CarryOffsets.
CARRYING: until every broker has answered and every partition of `__consumer_offsets` has had its
groups carried by whoever leads it; a partition that moves meanwhile is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.controller import deletion
from ottla.controller.context import ControllerContext, Rename
from ottla.controller.events import (
    CarryOffsetsResponseReceived,
    PartitionModifications,
    RenameTopic,
)
from ottla.controller.renaming import rules, stored
from ottla.controller.requests import RequestBatch
from ottla.controller.steps import ControlRequest, Read, Send, Steps, Tell, get_nodes
from ottla.controller.stored_leadership import read_states
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.renames import RenamePhase, StoredRename
from ottla.metadata.znodes import TopicZnode
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID, TopicId
from ottla.wire import messages as m

CARRY_OFFSETS_VERSION = 0
# Stages of a CarryOffsets request.
FENCE, CARRY, RELEASE = 0, 1, 2
# A coordinator with open transactions takes 200 ms to answer: about ten seconds.
MAX_ROUNDS = 50
_GROUPS_TOLD = 100


class Renamed(NamedTuple):
    """How a rename ended well; groups and offsets as far as this controller saw them."""

    topic_id: TopicId
    groups: int
    offsets: int
    group_ids: tuple[str, ...]


class Begun(NamedTuple):
    """The rename is on its way: its end is told to whoever asked."""


def begin(ctx: ControllerContext, event: RenameTopic) -> Steps[KafkaError | Renamed | Begun]:
    under_way = ctx.rename_of(event.topic)
    wanted = (event.topic, event.new_name)
    if under_way is not None and under_way.stored[:2] == wanted and not event.validate_only:
        # Asked for again, by somebody whose connection broke, or by somebody else.
        under_way.waiters.add(event.reply)
        return Begun()
    ended = ctx.topic_ids.get(event.new_name)
    if event.topic not in ctx.topics and ended == event.topic_id != ZERO_TOPIC_ID:
        # Done by an earlier request, whose answer got lost.
        return Renamed(event.topic_id, 0, 0, ())
    wrong = rules.too_many(ctx, (event.topic, event.new_name)) or rules.objection(
        ctx, event.topic, event.new_name, event.topic_id
    )
    if wrong is not None:
        return wrong
    topic_id = ctx.topic_ids[event.topic]
    if event.validate_only:
        return Renamed(topic_id, 0, 0, ())
    rename = Rename(topic_id, StoredRename(event.topic, event.new_name, RenamePhase.FENCING))
    if not (yield from stored.announce(topic_id, rename.stored)):
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The rename could not be written to the store."
        )
    rename.waiters.add(event.reply)
    ctx.renames[topic_id] = rename
    _record(ctx, rename, "Fencing")
    ctx.journal.info(f"Renaming topic {event.topic} to {event.new_name}")
    yield from _ask(ctx, rename, FENCE, ctx.brokers)
    return Begun()


def take_answer(ctx: ControllerContext, event: CarryOffsetsResponseReceived) -> Steps[None]:
    request, response = event.request, event.response
    rename = ctx.renames.get(request.topic_id)
    if rename is None or rename.asked.get(event.broker_id) is not request:
        return
    stage = _stage(rename)
    if request.stage != stage:
        return
    del rename.asked[event.broker_id]
    if stage == FENCE:
        yield from _fenced(ctx, rename, event.broker_id, response)
    else:
        yield from _carried(ctx, rename, event.broker_id, response)


def _stage(rename: Rename) -> int:
    """What brokers are asked for now."""
    return FENCE if rename.stored.phase is RenamePhase.FENCING else CARRY


def _fenced(
    ctx: ControllerContext, rename: Rename, broker_id: int, response: m.CarryOffsetsResponse
) -> Steps[None]:
    if response.error_code or response.open_transactions:
        rename.rounds += 1
        if rename.rounds > MAX_ROUNDS:
            yield from give_up(
                ctx,
                rename,
                KafkaError(
                    ErrorCode.CONCURRENT_TRANSACTIONS,
                    "Transactions with the topic, or with a group's offsets of it, stay open: try"
                    " again when they have ended (kafka-transactions.sh list shows them).",
                ),
            )
        else:
            yield from _ask(ctx, rename, FENCE, [broker_id])
        return
    if not rename.asked:
        yield from _commit(ctx, rename)


def _commit(ctx: ControllerContext, rename: Rename) -> Steps[None]:
    source, target, _ = rename.stored
    # What was found good may have changed while the coordinators were asked.
    wrong = rules.objection(ctx, source, target, rename.topic_id)
    if wrong is None and not (yield from stored.swap(rename)):
        wrong = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The topic changed while it was being renamed: try again."
        )
    if wrong is not None:
        yield from give_up(ctx, rename, wrong)
        return
    _record(ctx, rename, "Moving")
    rename.stored = yield from stored.move(ctx, rename.topic_id, rename.stored)
    ctx.rename_topic(source, target)
    # Watched from now on, like every topic.
    yield from get_nodes([Read(TopicZnode.path(target), PartitionModifications(target))])
    partitions = ctx.partitions_of(target)
    ctx.leadership.update((yield from read_states(partitions)))
    _record(ctx, rename, "Renamed", topic=target)
    ctx.journal.info(f"Topic {source} is called {target} now")
    batch = RequestBatch(ctx)
    for tp in partitions:
        batch.add_leader_and_isr(ctx.assignment(tp).replicas, tp, is_new=False)
    batch.add_update_metadata(ctx.brokers, partitions)
    yield from batch.send()
    yield from carry(ctx, rename)


def _carried(
    ctx: ControllerContext, rename: Rename, broker_id: int, response: m.CarryOffsetsResponse
) -> Steps[None]:
    if response.error_code != ErrorCode.NONE:
        # It has another epoch, or knows of another controller: that will be heard of soon.
        return
    rename.told[broker_id] = ctx.broker_epochs.get(broker_id, -1)
    rename.carried.update(response.partitions)
    rename.group_ids.update(response.group_ids)
    rename.offsets += response.offsets
    yield from carry(ctx, rename)


def carry(ctx: ControllerContext, rename: Rename) -> Steps[None]:
    """Asks whoever has not said yet that nothing of his names the old name; ends the rename when
    nobody is left. A partition without a leader is asked for when it has one."""
    if rename.asked:
        return
    untold = [
        broker_id
        for broker_id, epoch in ctx.broker_epochs.items()
        if broker_id in ctx.renaming_brokers and rename.told.get(broker_id) != epoch
    ]
    leaders: dict[int, list[int]] = {broker_id: [] for broker_id in untold}
    left = False
    for tp in ctx.partitions_of(OFFSETS_TOPIC):
        if tp.partition in rename.carried:
            continue
        left = True
        state = ctx.leadership.get(tp)
        if state is not None and state.leader in ctx.renaming_brokers & ctx.brokers.keys():
            leaders.setdefault(state.leader, []).append(tp.partition)
    if leaders:
        yield from _ask(ctx, rename, CARRY, leaders, leaders)
    elif not left:
        yield from _finish(ctx, rename)


def _finish(ctx: ControllerContext, rename: Rename) -> Steps[None]:
    source, target, _ = rename.stored
    yield from stored.forget(rename.topic_id)
    del ctx.renames[rename.topic_id]
    _record(ctx, rename, "Done", topic=target)
    ctx.journal.info(
        f"The rename of {source} to {target} is done: {rename.offsets} offsets of"
        f" {len(rename.group_ids)} groups were carried over"
    )
    group_ids = tuple(sorted(rename.group_ids))
    ended = Renamed(rename.topic_id, len(group_ids), rename.offsets, group_ids[:_GROUPS_TOLD])
    for reply in rename.waiters.take():
        yield Tell(reply, ended)
    yield from deletion.resume_topics(ctx, [source, target])


def expect_on(ctx: ControllerContext, broker_ids: Iterable[int]) -> Steps[None]:
    """Before brokers that came hear of the new name: what their groups have stands under the old
    one until it is carried over."""
    for rename in ctx.renames.values():
        if rename.stored.phase is not RenamePhase.FENCING:
            yield from _ask(ctx, rename, FENCE, broker_ids)


def give_up(ctx: ControllerContext, rename: Rename, reason: KafkaError) -> Steps[None]:
    """Before the names are swapped: nothing has changed, and the coordinators may go on."""
    yield from stored.forget(rename.topic_id)
    del ctx.renames[rename.topic_id]
    rename.asked.clear()
    _record(ctx, rename, "GivenUp", error=reason.code.name)
    ctx.journal.info(f"The rename of {rename.stored.source} is given up: {reason}")
    yield from _ask(ctx, rename, RELEASE, ctx.brokers)
    for reply in rename.waiters.take():
        yield Tell(reply, reason)
    yield from deletion.resume_topics(ctx, rename.stored[:2])


def brokers_changed(ctx: ControllerContext) -> Steps[None]:
    """A broker that came was not asked, one that went may have known of a transaction."""
    for rename in list(ctx.renames.values()):
        if rename.stored.phase is RenamePhase.FENCING:
            text = "A broker came or went while the topic was being renamed: try again."
            yield from give_up(ctx, rename, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            continue
        for broker_id, order in list(rename.asked.items()):
            if ctx.broker_epochs.get(broker_id) != order.broker_epoch:
                del rename.asked[broker_id]
        yield from carry(ctx, rename)


def resume(ctx: ControllerContext) -> Steps[None]:
    """Something may have a leader now that had none."""
    for rename in list(ctx.renames.values()):
        if rename.stored.phase is not RenamePhase.FENCING:
            yield from carry(ctx, rename)


def _ask(
    ctx: ControllerContext,
    rename: Rename,
    stage: int,
    broker_ids: Iterable[int],
    partitions: dict[int, list[int]] | None = None,
) -> Steps[None]:
    requests = []
    for broker_id in sorted(set(broker_ids) & ctx.brokers.keys() & ctx.renaming_brokers):
        epoch = ctx.broker_epochs[broker_id]
        message = m.CarryOffsetsRequest(
            controller_id=ctx.broker_id,
            controller_epoch=ctx.epoch,
            broker_epoch=epoch,
            topic_id=rename.topic_id,
            from_topic=rename.stored.source,
            to_topic=rename.stored.target,
            stage=stage,
            partitions=(partitions or {}).get(broker_id, []),
        )
        # Nobody waits for other answers.
        if stage == _stage(rename):
            rename.asked[broker_id] = message
        requests.append(ControlRequest(broker_id, message, CARRY_OFFSETS_VERSION))
    if requests:
        yield Send(requests)


def _record(
    ctx: ControllerContext,
    rename: Rename,
    step: str,
    *,
    topic: str | None = None,
    error: str | None = None,
) -> None:
    source, target, _ = rename.stored
    ctx.journal.record(
        "rename",
        topic=topic or source,
        topic_id=rename.topic_id,
        to_state=step,
        cause=f"{source} to {target}",
        error=error,
    )
