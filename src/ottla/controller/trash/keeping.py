"""Into the trash and out of it for good: what is kept of a topic, and when that ends (ADR 50).

The entry in `/ottla/ended` is written before the first replica is stopped. A broker that is told to
delete a log finds it there and sets the log aside instead, whoever the controller is by then.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.controller.context import ControllerContext
from ottla.controller.replica_states import ReplicaState
from ottla.controller.steps import Steps, failed, get_paths, write
from ottla.metadata.ended import EndedTopic, EndedTopicZnode, Kept
from ottla.metadata.store import Create, Delete, NodeExistsError, NoNodeError, SetData
from ottla.metadata.znodes import ConfigZnode, DeleteTopicZnode
from ottla.topics.configs import delete_retention_ms, is_protected
from ottla.topics.names import is_internal
from ottla.types import TopicId, TopicPartition, TopicPartitionReplica

# Beyond this deletions are refused: nothing leaves the trash before its time.
MAX_KEPT = 1_000
# An entry must fit a packet of ZooKeeper's (jute.maxbuffer), with room to grow.
MAX_ENTRY_BYTES = 900 * 1024
_LAST_MS = 2**63 - 1


def topic_configs(topics: Iterable[str]) -> Steps[dict[str, dict[str, str]]]:
    listed = list(topics)
    nodes = yield from get_paths([ConfigZnode.path(ConfigZnode.TOPICS, t) for t in listed])
    return {
        topic: {} if node is None else ConfigZnode.decode(node.data)
        for topic, node in zip(listed, nodes, strict=True)
    }


def refuse_protected(ctx: ControllerContext, topics: Iterable[str]) -> Steps[list[str]]:
    """Takes back requests to delete topics that are protected, whoever wrote them; returns the
    others."""
    configs = yield from topic_configs(topics)
    protected = [topic for topic, config in configs.items() if is_protected(config)]
    yield from _refuse(ctx, protected, "it is protected (ottla.delete.protect)")
    return [topic for topic in configs if topic not in protected]


def keep(ctx: ControllerContext, topics: list[str]) -> Steps[list[str]]:
    """Writes the entries of topics that are to be kept, before their deletion starts. Returns
    those that may start: where an entry should be and is not, nothing is deleted."""
    new = [t for t in topics if t not in ctx.topics_with_deletion_started and not _is_kept(ctx, t)]
    configs = yield from topic_configs(new)
    entries: dict[str, EndedTopic] = {}
    refused: dict[str, str] = {}
    for topic in new:
        retention_ms = delete_retention_ms(configs[topic], ctx.config.delete_retention_ms)
        if retention_ms <= 0 or not may_be_kept(ctx, topic):
            continue
        entry = make_entry(ctx, topic, configs[topic], retention_ms)
        reason = no_room(ctx, entry, others=len(entries))
        if reason is None:
            entries[topic] = entry
        else:
            refused[topic] = reason
    unwritten = yield from _write_entries(ctx, entries)
    refused.update(dict.fromkeys(unwritten, f"{EndedTopicZnode.parent()} cannot be written"))
    for topic, reason in refused.items():
        yield from _refuse(ctx, [topic], reason)
    return [topic for topic in topics if topic not in refused]


def _is_kept(ctx: ControllerContext, topic: str) -> bool:
    """A controller that died may have written it: its ISRs are those from before the deletion."""
    return ctx.topic_ids.get(topic) in ctx.trash


def may_be_kept(ctx: ControllerContext, topic: str) -> bool:
    """Says so where a topic with a retention goes as in Kafka."""
    replicas = {r.broker_id for r in ctx.replicas_of(ctx.partitions_of(topic))}
    foreign = sorted(replicas - ctx.ottla_brokers)
    if is_internal(topic) or ctx.topic_ids.get(topic) is None or not replicas:
        reason = "it is internal, or has no id or no replicas"
    elif foreign:
        reason = f"brokers {','.join(map(str, foreign))} are not Ottla's and delete at once"
    else:
        return True
    ctx.journal.warn(f"Topic {topic} is deleted without a way back: {reason}")
    ctx.journal.record("topic", topic=topic, to_state="NotKept", cause=reason)
    return False


def no_room(
    ctx: ControllerContext, entry: EndedTopic, *, others: int = 0, max_bytes: int = MAX_ENTRY_BYTES
) -> str | None:
    """Why the trash cannot take a topic that is to be kept, beside `others` at the same time."""
    if len(ctx.trash) + others >= MAX_KEPT:
        return f"the trash is full: {MAX_KEPT} topics (purge some)"
    if len(EndedTopicZnode.encode_entry(entry)) > max_bytes:
        return "it is too large for the trash (set ottla.delete.retention.ms=0)"
    return None


def make_entry(
    ctx: ControllerContext, topic: str, configs: dict[str, str], retention_ms: int
) -> EndedTopic:
    now_ms = ctx.now_ms()
    # A partition that never had a leader has no state, and nothing in it: any replica may lead.
    partitions = ctx.partitions_of(topic)
    states = {tp.partition: ctx.leadership[tp] for tp in partitions if tp in ctx.leadership}
    replicas = {p: a.replicas for p, a in sorted(ctx.topic_assignment(topic).items())}
    kept = Kept(
        now_ms,
        min(now_ms + retention_ms, _LAST_MS),
        replicas,
        configs,
        _highest_epoch(ctx, topic),
        {p: state.isr for p, state in sorted(states.items()) if set(state.isr) != {*replicas[p]}},
    )
    return EndedTopic(topic, tuple(sorted(kept.hosts() | down(ctx))), kept)


def _highest_epoch(ctx: ControllerContext, topic: str) -> int:
    epochs = (
        ctx.leadership[tp].leader_epoch for tp in ctx.partitions_of(topic) if tp in ctx.leadership
    )
    return max(epochs, default=0)


def raise_epochs(ctx: ControllerContext, topics: Iterable[str]) -> None:
    """Before the entries of topics whose znodes are about to go are written once more. The stops
    have raised the epochs since the first time, and a leader may have been told of that: by a new
    controller, or because it came back before it could be stopped. The topic must not be led under
    such an epoch again. Its ISRs stay those from before the deletion."""
    for topic in topics:
        topic_id = ctx.topic_ids.get(topic)
        entry = None if topic_id is None else ctx.trash.get(topic_id)
        if topic_id is None or entry is None or entry.kept is None:
            continue
        # Never lower: a controller that died may have removed the states already.
        epoch = max(entry.kept.leader_epoch, _highest_epoch(ctx, topic))
        ctx.trash[topic_id] = entry._replace(kept=entry.kept._replace(leader_epoch=epoch))


def pass_over_returned(ctx: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    """Before the same: takes members out of the noted ISRs that may have lost what they had not
    synced before they set their logs aside, because they are down, or have registered since the
    entry was made (ADR 22). Where there is no other the ISR stays."""
    found = {topic: ctx.topic_ids.get(topic) for topic in topics}
    kept = {id: topic for topic, id in found.items() if id is not None and id in ctx.trash}
    nodes = yield from get_paths([EndedTopicZnode.path(topic_id) for topic_id in kept])
    for (topic_id, topic), node in zip(kept.items(), nodes, strict=True):
        entry = ctx.trash[topic_id]
        if node is None or entry.kept is None:
            continue
        isrs = dict(entry.kept.isrs)
        for partition in entry.kept.replicas:
            isr = entry.kept.isr(partition)
            tp = TopicPartition(topic, partition)
            sure = tuple(member for member in isr if _was_there(ctx, tp, member, node.stat.czxid))
            if sure and len(sure) < len(isr):
                isrs[partition] = sure
        changed = entry._replace(kept=entry.kept._replace(isrs=isrs))
        if len(EndedTopicZnode.encode_entry(changed)) <= MAX_ENTRY_BYTES:
            ctx.trash[topic_id] = changed


def _was_there(ctx: ControllerContext, tp: TopicPartition, broker_id: int, since: int) -> bool:
    state = ctx.replica_state(TopicPartitionReplica(tp.topic, tp.partition, broker_id))
    epoch = ctx.broker_epochs.get(broker_id)
    return state is ReplicaState.DELETION_SUCCESSFUL and epoch is not None and epoch <= since


def down(ctx: ControllerContext) -> set[int]:
    """One of these may have a log from before a move (ADR 28)."""
    return ctx.ottla_brokers - ctx.brokers.keys()


def _write_entries(ctx: ControllerContext, entries: dict[str, EndedTopic]) -> Steps[list[str]]:
    ids = {topic: ctx.topic_ids[topic] for topic in entries}
    if not entries:
        return []
    results = yield from write(
        [Create("/ottla"), Create(EndedTopicZnode.parent())]
        + [
            Create(EndedTopicZnode.path(ids[topic]), EndedTopicZnode.encode_entry(entry))
            for topic, entry in entries.items()
        ]
    )
    again, unwritten = [], []
    for topic, result in zip(entries, results[2:], strict=True):
        if isinstance(result.error, NodeExistsError):
            again.append(topic)
        elif failed(result):
            unwritten.append(topic)
    rewritten = yield from write(
        [
            SetData(EndedTopicZnode.path(ids[t]), EndedTopicZnode.encode_entry(entries[t]))
            for t in again
        ]
    )
    unwritten += [t for t, result in zip(again, rewritten, strict=True) if failed(result)]
    for topic, entry in entries.items():
        if topic not in unwritten:
            ctx.ended.pop(ids[topic], None)
            ctx.trash[ids[topic]] = entry
    return unwritten


def _refuse(ctx: ControllerContext, topics: list[str], reason: str) -> Steps[None]:
    if not topics:
        return
    ctx.journal.error(f"Deletion of topics {','.join(topics)} is refused: {reason}")
    for topic in topics:
        ctx.journal.record(
            "topic", topic=topic, topic_id=ctx.topic_ids.get(topic), error=reason, cause="delete"
        )
        ctx.topics_to_delete.discard(topic)
        ctx.topics_ineligible_for_deletion.discard(topic)
    yield from write([Delete(DeleteTopicZnode.path(topic)) for topic in topics])


def is_being_deleted(ctx: ControllerContext, topic_id: TopicId, entry: EndedTopic) -> bool:
    """Whether the topic itself is still there."""
    return ctx.topic_ids.get(entry.topic) == topic_id


def due(ctx: ControllerContext, now_ms: int) -> list[TopicId]:
    return [
        topic_id
        for topic_id, entry in ctx.trash.items()
        if entry.kept is not None
        and entry.kept.until_ms <= now_ms
        and entry.kept.undelete_as is None
        and not is_being_deleted(ctx, topic_id, entry)
    ]


def next_due_ms(ctx: ControllerContext) -> int | None:
    """What is still being deleted is looked at when that is over."""
    return min(
        (
            entry.kept.until_ms
            for topic_id, entry in ctx.trash.items()
            if entry.kept is not None and not is_being_deleted(ctx, topic_id, entry)
        ),
        default=None,
    )


def purge(ctx: ControllerContext, topic_ids: Iterable[TopicId], cause: str) -> Steps[None]:
    """Ends the topics for good: from here on the entry says only that they ended, and brokers
    remove what they kept as soon as they see that."""
    ended = {
        topic_id: EndedTopic(entry.topic, tuple(sorted({*entry.brokers, *down(ctx)})))
        for topic_id in topic_ids
        if (entry := ctx.trash.get(topic_id)) is not None
    }
    results = yield from write(
        [
            SetData(EndedTopicZnode.path(topic_id), EndedTopicZnode.encode_entry(entry))
            for topic_id, entry in ended.items()
        ]
    )
    for (topic_id, entry), result in zip(ended.items(), results, strict=True):
        if failed(result, NoNodeError):
            ctx.journal.error(f"Topic {entry.topic} stays in the trash: {result.error!r}")
            continue
        del ctx.trash[topic_id]
        if result.error is None:
            ctx.ended[topic_id] = bool(entry.brokers)
        ctx.journal.info(f"Topic {entry.topic} is purged from the trash: {cause}")
        ctx.journal.record(
            "topic", topic=entry.topic, topic_id=topic_id, to_state="Purged", cause=cause
        )
