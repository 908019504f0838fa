"""The way of a resize through the brokers.

COPYING: somebody else copies; nothing is asked of brokers. FENCED: leaders take no records of the
topic and coordinators no offsets; a fence that nobody asks for any more is lifted, as is one during
which a broker came or went. The fence stands when every broker has said that nothing is under way.
To finish, coordinators store what groups are to go on at, under the shadow's name. Then the name
changes hands, and brokers are told in the order that every broker keeps: the topic is closed to
consumers and the old replicas end (by their topic's id: under the same name the new ones may be
there already), the new ones serve followers. CARRYING: coordinators make the
shadow's offsets those of the name and end every generation that reads it; then leaders take
records, and when members had time to hear of it, consumers may read. A coordinator that is away for
long keeps consumers waiting, and producers no longer: what its groups know are places in the old
topic, at which they would skip records of the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.controller import deletion
from ottla.controller.context import ControllerContext, Resize
from ottla.controller.events import (
    AbortResize,
    BeginResize,
    FenceResize,
    FinishResize,
    PartitionModifications,
    ResizeOrderResponseReceived,
    ResizeTick,
)
from ottla.controller.requests import RequestBatch
from ottla.controller.resizing import rules, stored
from ottla.controller.steps import ControlRequest, PostLater, Read, Send, Steps, Tell, get_nodes
from ottla.controller.stored_leadership import read_states
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopic
from ottla.metadata.resizes import ResizePhase, StoredResize
from ottla.metadata.znodes import TopicZnode
from ottla.topics.configs import delete_retention_ms
from ottla.topics.names import OFFSETS_TOPIC, shadow_name
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import messages as m

ORDER_VERSION = 0
# Stages of a ResizeOrder.
FENCE, STAGE, CLOSE, CARRY, OPEN_WRITES, RELEASE = range(6)
# A broker that is busy takes 200 ms to say so: about six seconds.
MAX_ROUNDS = 30
TICK_S = 1.0
# Ticks without a word from whoever wanted the fence, and ticks that it stands at most.
LEASE_TICKS = 10
MAX_FENCE_TICKS = 60
# Members send heartbeats every three seconds by default: after this many ticks they have heard that
# their generation is over, and nobody reads the new topic at a position of the old one.
HOLD_TICKS = 4
# A coordinator that is away keeps producers from the topic for so long.
MAX_CLOSED_TICKS = 30


class Begun(NamedTuple):
    """A resize that is under way: `is_resumed` if it was before."""

    resize: StoredResize
    old_partitions: int
    is_resumed: bool
    retention_ms: int


class Waiting(NamedTuple):
    """The end of the step is told to whoever asked."""


class Fenced(NamedTuple):
    """`ends` are those of the topic's partitions, as long as the fence stands."""

    fence: int
    ends: Mapping[int, int]


class Resized(NamedTuple):
    """The name has the new topic; groups and members as far as this controller saw them."""

    topic_id: TopicId
    groups: int
    members: int


def begin(ctx: ControllerContext, event: BeginResize) -> Steps[KafkaError | Begun]:
    topic = event.topic
    under_way = ctx.resize_of(topic)
    if under_way is not None and under_way.stored.topic == topic:
        return (yield from _resume(ctx, event, under_way))
    factor = event.replication_factor
    if factor == -1 and topic in ctx.topics:
        factor = rules.replication_factor(ctx, topic)
    wrong = rules.objection(ctx, topic, event.partitions, factor, event.partitioner)
    if wrong is not None:
        return wrong
    configs = yield from stored.configs_of(topic)
    ended = stored.what_ends(ctx, topic, configs)
    if isinstance(ended, KafkaError):
        return ended
    topic_id = ctx.topic_ids[topic]
    # Never the name of an earlier one: a coordinator may have stored offsets under that, and not
    # have heard of its end.
    number = begun_ms = ctx.now_ms()
    while shadow_name(topic_id, number) in ctx.topics:
        number += 1
    resize = StoredResize(
        topic,
        topic_id,
        shadow_name(topic_id, number),
        ZERO_TOPIC_ID,
        event.partitions,
        factor,
        event.partitioner,
        ResizePhase.COPYING,
        0,
        begun_ms,
    )
    retention_ms = delete_retention_ms(configs, ctx.config.delete_retention_ms)
    begun = Begun(resize, len(ctx.topic_assignment(topic)), False, retention_ms)
    if event.validate_only:
        return begun
    if not (yield from stored.announce(resize)):
        return KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, "The resize could not be written to the store."
        )
    ctx.resizes[topic_id] = Resize(resize)
    _record(ctx, ctx.resizes[topic_id], "Copying")
    ctx.journal.info(f"Resizing topic {topic} to {resize.partitions} partitions: {resize.shadow}")
    return begun


def _resume(
    ctx: ControllerContext, event: BeginResize, resize: Resize
) -> Steps[KafkaError | Begun]:
    known = resize.stored
    if known.is_swapped:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            "An earlier resize of the topic is about to end: try again.",
        )
    if stored.is_gone(ctx, known.topic, known.topic_id):
        yield from _undo(ctx, resize, "the topic was deleted")
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The topic has changed: try again.")
    wanted = (event.partitions, event.partitioner)
    if wanted != (known.partitions, known.partitioner) or event.replication_factor not in (
        -1,
        known.replication_factor,
    ):
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A resize of the topic to {known.partitions} partitions with replication factor"
            f" {known.replication_factor} by {known.partitioner} is under way: go on with that, or"
            " abort it first (--abort).",
        )
    configs = yield from stored.configs_of(known.topic)
    retention_ms = delete_retention_ms(configs, ctx.config.delete_retention_ms)
    return Begun(known, len(ctx.topic_assignment(known.topic)), True, retention_ms)


# --- the fence ----------------------------------------------------------------------------------


def fence(ctx: ControllerContext, event: FenceResize) -> Steps[KafkaError | Fenced | Waiting]:
    resize = _under_way(ctx, event.topic, event.topic_id)
    if isinstance(resize, KafkaError):
        return resize
    known = resize.stored
    if known.is_swapped:
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "The topic is resized already.")
    if known.phase is ResizePhase.FENCED:
        if event.fence not in (-1, known.fence):
            return _lifted()
        resize.silent = 0
        # Whoever finishes waits for something else than a fence.
        if not resize.asked or resize.groups is not None:
            return Fenced(known.fence, dict(resize.ends))
        resize.waiters.add(event.reply)
        return Waiting()
    if event.fence != -1:
        return _lifted()
    wrong = _unready(ctx, known)
    if wrong is not None:
        return wrong
    fenced = known._replace(
        phase=ResizePhase.FENCED, fence=known.fence + 1, shadow_id=ctx.topic_ids[known.shadow]
    )
    yield from stored.note(fenced)
    resize.stored = fenced
    resize.rounds = resize.silent = resize.standing = 0
    resize.ends.clear()
    resize.groups = None
    resize.waiters.add(event.reply)
    resize.is_ticking = True
    _record(ctx, resize, "Fencing")
    yield PostLater(ResizeTick(known.topic_id, fenced.fence), TICK_S)
    yield from _ask(ctx, resize, FENCE, ctx.brokers)
    return Waiting()


def _lifted() -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH,
        "The fence was lifted meanwhile: a broker came or went, or nobody asked for it in time.",
    )


def _under_way(
    ctx: ControllerContext, topic: str, topic_id: TopicId = ZERO_TOPIC_ID
) -> Resize | KafkaError:
    resize = ctx.resize_of(topic)
    if resize is None or resize.stored.topic != topic:
        return KafkaError(
            ErrorCode.OPERATION_NOT_ATTEMPTED, f"No resize of topic '{topic}' is under way."
        )
    if topic_id not in (ZERO_TOPIC_ID, resize.stored.topic_id):
        return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "The topic has another id.")
    return resize


def _unready(ctx: ControllerContext, known: StoredResize) -> KafkaError | None:
    if stored.is_gone(ctx, known.topic, known.topic_id):
        return KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID, "The topic was deleted meanwhile: abort the resize."
        )
    if known.shadow not in ctx.topics or ctx.is_queued_for_deletion(known.shadow):
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic {known.shadow}, which has the copy, is gone: abort the resize.",
        )
    if known.phase is ResizePhase.FENCED and stored.is_gone(ctx, known.shadow, known.shadow_id):
        return KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID,
            f"Topic {known.shadow} was made again and has not what was copied.",
        )
    if any(tp.topic == known.shadow for tp in ctx.partitions_being_reassigned):
        return KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS, f"Partitions of {known.shadow} are being moved."
        )
    if len(ctx.topic_assignment(known.shadow)) != known.partitions:
        return KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic {known.shadow} has not {known.partitions} partitions: abort the resize.",
        )
    return (
        rules.of_topic(ctx, known.topic)
        or rules.of_brokers(ctx, known.topic)
        or rules.of_leaders(ctx, (known.topic, known.shadow))
    )


def lift(ctx: ControllerContext, resize: Resize, reason: KafkaError) -> Steps[None]:
    """Before the swap: the topic serves again, and the copy may go on."""
    resize.stored = resize.stored._replace(phase=ResizePhase.COPYING)
    yield from stored.note(resize.stored)
    resize.asked.clear()
    resize.groups = None
    _record(ctx, resize, "Lifted", error=reason.code.name)
    ctx.journal.info(f"The fence of {resize.stored.topic} is lifted: {reason}")
    yield from _ask(ctx, resize, RELEASE, ctx.brokers)
    yield from _tell(resize, reason)


# --- answers ------------------------------------------------------------------------------------


def take_answer(ctx: ControllerContext, event: ResizeOrderResponseReceived) -> Steps[None]:
    request, response = event.request, event.response
    resize = ctx.resizes.get(request.topic_id)
    if resize is None or resize.asked.get(event.broker_id) is not request:
        return
    if request.stage != _stage(resize):
        return
    del resize.asked[event.broker_id]
    if request.stage == FENCE:
        yield from _fence_answered(ctx, resize, event.broker_id, response)
    elif response.error_code == ErrorCode.NONE:
        resize.carried.update(response.partitions)
        if request.stage == CARRY:
            # Members who were sent away have to hear of it before anybody reads.
            resize.standing = 0 if resize.is_open_for_writes else resize.standing
            resize.told[event.broker_id] = ctx.broker_epochs.get(event.broker_id, -1)
            resize.group_count += response.groups
            resize.member_count += response.members
        yield from _go_on(ctx, resize)


def _stage(resize: Resize) -> int | None:
    """What brokers are asked for now."""
    if resize.stored.phase is ResizePhase.FENCED:
        return FENCE if resize.groups is None else STAGE
    return CARRY if resize.stored.phase is ResizePhase.CARRYING else None


def _fence_answered(
    ctx: ControllerContext, resize: Resize, broker_id: int, response: m.ResizeOrderResponse
) -> Steps[None]:
    if response.error_code or response.busy:
        resize.rounds += 1
        if resize.rounds > MAX_ROUNDS:
            text = (
                "Transactions with the topic stay open, or followers do not catch up: try again"
                " when they have (kafka-transactions.sh list shows transactions)."
            )
            yield from lift(ctx, resize, KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, text))
        else:
            yield from _ask(ctx, resize, FENCE, [broker_id])
        return
    resize.ends.update({end.partition_index: end.end_offset for end in response.ends})
    if resize.asked:
        return
    if resize.ends.keys() != ctx.topic_assignment(resize.stored.topic).keys():
        text = "A partition of the topic has no leader any more: try again when it has."
        yield from lift(ctx, resize, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
        return
    _record(ctx, resize, "Fenced")
    yield from _tell(resize, Fenced(resize.stored.fence, dict(resize.ends)))


def _go_on(ctx: ControllerContext, resize: Resize) -> Steps[None]:
    """Asks whoever has not done yet what it was asked for; goes on when nobody is left."""
    stage = _stage(resize)
    if resize.asked or stage not in (STAGE, CARRY):
        return
    leaders: dict[int, list[int]] = {}
    if stage == CARRY and not resize.is_open_for_writes:
        untold = (b for b, epoch in ctx.broker_epochs.items() if resize.told.get(b) != epoch)
        leaders = {broker_id: [] for broker_id in untold if broker_id in ctx.resizing_brokers}
    left = _uncarried(ctx, resize)
    for tp in left:
        state = ctx.leadership.get(tp)
        if state is not None and state.leader in ctx.resizing_brokers & ctx.brokers.keys():
            leaders.setdefault(state.leader, []).append(tp.partition)
    if leaders:
        yield from _ask(ctx, resize, stage, leaders, leaders)
    elif not left and stage == STAGE:
        yield from _commit(ctx, resize)
    elif not left and not resize.is_open_for_writes:
        yield from _open_writes(ctx, resize)


def _uncarried(ctx: ControllerContext, resize: Resize) -> list[TopicPartition]:
    """Partitions of `__consumer_offsets` whose coordinators have not done yet what they were asked
    for; one without a leader is among them."""
    partitions = ctx.partitions_of(OFFSETS_TOPIC)
    return [tp for tp in partitions if tp.partition not in resize.carried]


# --- the swap -----------------------------------------------------------------------------------


def finish(ctx: ControllerContext, event: FinishResize) -> Steps[KafkaError | Resized | Waiting]:
    resize = _under_way(ctx, event.topic, event.topic_id)
    if isinstance(resize, KafkaError):
        if ZERO_TOPIC_ID != event.shadow_id == ctx.topic_ids.get(event.topic):
            # Done by an earlier request, whose answer got lost.
            return Resized(event.shadow_id, 0, 0)
        return resize
    if resize.is_open_for_writes:
        return _resized(resize)
    if resize.stored.is_swapped:
        resize.waiters.add(event.reply)
        return Waiting()
    if resize.stored.phase is not ResizePhase.FENCED or event.fence != resize.stored.fence:
        return _lifted()
    if event.shadow_id != resize.stored.shadow_id:
        return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "The shadow has another id.")
    wrong = rules.of_offsets(resize.stored.partitions, event.groups)
    if wrong is not None:
        return wrong
    if resize.groups is not None:
        # Asked for again, by somebody whose connection broke.
        resize.waiters.add(event.reply)
        return Waiting()
    if resize.asked:
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "The fence does not stand yet.")
    resize.silent = 0
    resize.groups = event.groups
    resize.guards_keys = event.guards_keys
    resize.carried.clear()
    resize.waiters.add(event.reply)
    _record(ctx, resize, "Staging")
    # Also without any: coordinators may have groups that whoever asks did not see.
    yield from _go_on(ctx, resize)
    return Waiting()


def _commit(ctx: ControllerContext, resize: Resize) -> Steps[None]:
    known = resize.stored
    # What was found good may have changed since.
    ended = _unready(ctx, known) or (yield from stored.swap(ctx, resize))
    if isinstance(ended, str):
        text = f"Topic '{known.topic}' is not resized: {ended}."
        ended = KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
    if isinstance(ended, KafkaError):
        yield from lift(ctx, resize, ended)
        return
    _record(ctx, resize, "Moving")
    resize.stored = yield from stored.move(ctx, resize.stored)
    _take_in(ctx, resize, ended)
    # Watched from now on, like every topic.
    watch = PartitionModifications(known.topic)
    yield from get_nodes([Read(TopicZnode.path(known.topic), watch)])
    partitions = ctx.partitions_of(known.topic)
    ctx.leadership.update((yield from read_states(partitions)))
    ctx.journal.info(f"Topic {known.topic} has {known.partitions} partitions now")
    # First of all: a broker that hears of the new topic's leaders forgets what it knew of the name,
    # and clients must not be told that there is no such topic.
    shape = RequestBatch(ctx)
    shape.add_update_metadata(ctx.brokers, partitions)
    yield from shape.send()
    yield from close_on(ctx, ctx.brokers)
    batch = RequestBatch(ctx)
    for tp in partitions:
        batch.add_leader_and_isr(ctx.assignment(tp).replicas, tp, is_new=False)
    batch.add_update_metadata(ctx.brokers, partitions)
    yield from batch.send()
    resize.carried.clear()
    resize.standing = 0
    yield from _go_on(ctx, resize)


def _take_in(ctx: ControllerContext, resize: Resize, ended: EndedTopic) -> None:
    known = resize.stored
    ctx.remove_topic(known.topic)
    ctx.rename_topic(known.shadow, known.topic)
    if ended.kept is not None:
        ctx.trash[known.topic_id] = ended
    else:
        ctx.ended[known.topic_id] = bool(ended.brokers)
    _record(ctx, resize, "Swapped", topic_id=known.shadow_id)


def close_on(ctx: ControllerContext, broker_ids: Iterable[int]) -> Steps[None]:
    """Before brokers lead or follow a topic that is not to be read yet."""
    for resize in ctx.resizes.values():
        if resize.stored.phase is ResizePhase.CARRYING:
            yield from _ask(ctx, resize, CLOSE, broker_ids)
            if resize.is_open_for_writes:
                yield from _ask(ctx, resize, OPEN_WRITES, broker_ids)


def _open_writes(ctx: ControllerContext, resize: Resize) -> Steps[None]:
    resize.is_open_for_writes = True
    resize.standing = 0
    _record(ctx, resize, "OpenForWrites", topic_id=resize.stored.shadow_id)
    yield from _ask(ctx, resize, OPEN_WRITES, ctx.brokers)
    yield from _tell(resize, _resized(resize))
    if not resize.member_count and not _uncarried(ctx, resize):
        yield from _end(ctx, resize)


def _resized(resize: Resize) -> Resized:
    return Resized(resize.stored.shadow_id, resize.group_count, resize.member_count)


def _end(ctx: ControllerContext, resize: Resize) -> Steps[None]:
    known = resize.stored
    yield from stored.forget(known)
    del ctx.resizes[known.topic_id]
    yield from _ask(ctx, resize, RELEASE, ctx.brokers)
    _record(ctx, resize, "Done", topic_id=known.shadow_id)
    ctx.journal.info(
        f"The resize of {known.topic} to {known.partitions} partitions is done: offsets of"
        f" {resize.group_count} groups were carried over"
    )
    yield from deletion.resume_topics(ctx, [known.topic])


# --- undoing, time and brokers ------------------------------------------------------------------


def abort(ctx: ControllerContext, event: AbortResize) -> Steps[KafkaError | None]:
    resize = _under_way(ctx, event.topic)
    if isinstance(resize, KafkaError):
        return resize
    if resize.stored.is_swapped:
        return KafkaError(
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            "The topic is resized already: there is no way back any more.",
        )
    yield from _undo(ctx, resize, "asked for")
    return None


def _undo(ctx: ControllerContext, resize: Resize, reason: str) -> Steps[None]:
    known = resize.stored
    yield from stored.delete_shadow(known)
    yield from stored.forget(known)
    del ctx.resizes[known.topic_id]
    resize.asked.clear()
    _record(ctx, resize, "Aborted")
    ctx.journal.info(f"The resize of {known.topic} is aborted: {reason}")
    if known.phase is ResizePhase.FENCED:
        yield from _ask(ctx, resize, RELEASE, ctx.brokers)
    yield from _tell(resize, KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, "It was aborted."))


def end_without_topic(ctx: ControllerContext) -> Steps[None]:
    """Undoes resizes whose topic was deleted or is about to be: nobody else would remove the
    shadow. That of a topic which is merely missing may be all there is of it, and stays."""
    for resize in list(ctx.resizes.values()):
        known = resize.stored
        is_over = stored.is_gone(ctx, known.topic, known.topic_id) and (
            known.topic_id in ctx.ended or known.topic_id in ctx.trash
        )
        if not known.is_swapped and (is_over or ctx.is_queued_for_deletion(known.topic)):
            yield from _undo(ctx, resize, "the topic is deleted")


def tick(ctx: ControllerContext, event: ResizeTick) -> Steps[None]:
    resize = ctx.resizes.get(event.topic_id)
    if resize is None or resize.stored.fence != event.fence:
        return
    if resize.stored.phase is ResizePhase.COPYING:
        return
    resize.silent += 1
    resize.standing += 1
    if resize.stored.phase is ResizePhase.FENCED:
        if resize.silent > LEASE_TICKS or resize.standing > MAX_FENCE_TICKS:
            text = (
                f"The topic could not be written for {resize.standing} seconds, and whoever wanted"
                " that was not done, or not heard of."
            )
            yield from lift(ctx, resize, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            return
    elif resize.is_open_for_writes:
        if resize.standing >= HOLD_TICKS and not _uncarried(ctx, resize):
            yield from _end(ctx, resize)
            return
    elif resize.standing > MAX_CLOSED_TICKS:
        ctx.journal.error(
            f"Topic {resize.stored.topic} takes records again, but nobody can read it before every"
            f" group's offsets are carried over, and these partitions of {OFFSETS_TOPIC} have no"
            f" coordinator that answers: {[tp.partition for tp in _uncarried(ctx, resize)]}"
        )
        yield from _open_writes(ctx, resize)
    yield from _go_on(ctx, resize)
    if event.topic_id in ctx.resizes:
        yield PostLater(event, TICK_S)


def brokers_changed(ctx: ControllerContext) -> Steps[None]:
    """A broker that came knows of no fence, one that went may have known of a transaction."""
    for resize in list(ctx.resizes.values()):
        if resize.stored.phase is ResizePhase.FENCED:
            text = "A broker came or went while the topic was fenced: try again."
            yield from lift(ctx, resize, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text))
            continue
        for broker_id, order in list(resize.asked.items()):
            if ctx.broker_epochs.get(broker_id) != order.broker_epoch:
                del resize.asked[broker_id]
        yield from _go_on(ctx, resize)


def resume(ctx: ControllerContext) -> Steps[None]:
    """Something may have a leader now that had none; a new controller goes on with what it took
    over, and every fence of the one before is lifted."""
    yield from end_without_topic(ctx)
    for resize in list(ctx.resizes.values()):
        known = resize.stored
        if known.phase is ResizePhase.CARRYING and not resize.is_ticking:
            resize.is_ticking = True
            yield PostLater(ResizeTick(known.topic_id, known.fence), TICK_S)
        yield from _go_on(ctx, resize)


def _tell(resize: Resize, outcome: KafkaError | Fenced | Resized) -> Steps[None]:
    for reply in resize.waiters.take():
        yield Tell(reply, outcome)


def _ask(
    ctx: ControllerContext,
    resize: Resize,
    stage: int,
    broker_ids: Iterable[int],
    partitions: dict[int, list[int]] | None = None,
) -> Steps[None]:
    requests = []
    known = resize.stored
    groups = _staged(resize) if stage == STAGE else []
    for broker_id in sorted(set(broker_ids) & ctx.brokers.keys() & ctx.resizing_brokers):
        epoch = ctx.broker_epochs[broker_id]
        message = m.ResizeOrderRequest(
            controller_id=ctx.broker_id,
            controller_epoch=ctx.epoch,
            broker_epoch=epoch,
            topic=known.topic,
            topic_id=known.topic_id,
            shadow=known.shadow,
            stage=stage,
            partitions=(partitions or {}).get(broker_id, []),
            groups=groups,
        )
        if stage in (FENCE, STAGE, CARRY):
            resize.asked[broker_id] = message
        requests.append(ControlRequest(broker_id, message, ORDER_VERSION))
    if requests:
        yield Send(requests)


def _staged(resize: Resize) -> list[m.ResizeOrderRequest.StagedGroup]:
    order = m.ResizeOrderRequest
    return [
        order.StagedGroup(
            group_id=group_id,
            offsets=[
                order.StagedOffset(partition_index=partition, offset=offset)
                for partition, offset in sorted(offsets.items())
            ],
        )
        for group_id, offsets in resize.groups or ()
    ]


def _record(
    ctx: ControllerContext,
    resize: Resize,
    step: str,
    *,
    topic_id: TopicId | None = None,
    error: str | None = None,
) -> None:
    known = resize.stored
    ctx.journal.record(
        "resize",
        topic=known.topic,
        topic_id=topic_id or known.topic_id,
        to_state=step,
        cause=f"to {known.partitions} partitions, fence {known.fence}",
        error=error,
    )
