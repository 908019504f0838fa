"""Out of the trash: a deleted topic gets its znodes, its id and its replicas back (ADR 50).

The wish is written into the entry first. From then on a successor finishes it, before it reads any
topic. The topic's znode comes without partitions, then their states with the ISRs from before the
deletion, then the assignment: no controller of any kind can take them for new partitions, of which
any replica may lead.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.controller import partition_machine, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.election import Strategy
from ottla.controller.partition_states import PartitionState
from ottla.controller.replica_states import ReplicaState
from ottla.controller.requests import send_update_metadata
from ottla.controller.steps import Steps, failed, get_paths, write
from ottla.controller.trash.keeping import is_being_deleted
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopic, EndedTopicZnode, Kept, StoredEntry
from ottla.metadata.store import Create, Delete, NodeExistsError, SetData
from ottla.metadata.znode_values import NO_LEADER
from ottla.metadata.znodes import (
    ConfigZnode,
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicZnode,
)
from ottla.topics import names
from ottla.types import TopicId, TopicPartition, format_topic_id


class Choice(NamedTuple):
    """One topic in the trash, and how it is to be called."""

    topic_id: TopicId
    entry: EndedTopic
    kept: Kept
    name: str


def find(ctx: ControllerContext, topic: str, topic_id: TopicId | None) -> TopicId | KafkaError:
    """Without an id the one that was deleted last."""
    found = [
        (entry.kept.deleted_ms, known)
        for known, entry in ctx.trash.items()
        if entry.kept is not None and entry.topic == topic and topic_id in (None, known)
    ]
    if found:
        return max(found)[1]
    if topic_id is None:
        text = f"There is no topic '{topic}' in the trash."
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    text = f"There is no topic '{topic}' of id {format_topic_id(topic_id)} in the trash."
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, text)


def choose(
    ctx: ControllerContext, topic: str, topic_id: TopicId | None, name: str | None
) -> Choice | KafkaError:
    """What is to come back, or why it cannot."""
    found = find(ctx, topic, topic_id)
    if isinstance(found, KafkaError):
        return found
    entry = ctx.trash[found]
    kept = entry.kept
    if kept is None or is_being_deleted(ctx, found, entry):
        text = f"The deletion of topic '{topic}' is not finished yet."
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    if kept.undelete_as is not None:
        text = f"Topic '{topic}' is on its way back as '{kept.undelete_as}' already."
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, text)
    target = topic if name is None else name
    if target != topic and names.is_reserved(target):
        text = f"'{target}' is the name of an internal topic."
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    return _objection(ctx, target, kept) or Choice(found, entry, kept, target)


def _objection(ctx: ControllerContext, name: str, kept: Kept) -> KafkaError | None:
    try:
        names.validate(name)
    except KafkaError as error:
        return error
    if name in ctx.topics or ctx.rename_of(name) is not None:
        text = f"Topic '{name}' already exists. Bring it back under another name (--as)."
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, text)
    other = next((t for t in ctx.topics if names.collides(t, name)), None)
    if other is not None and names.has_collision_chars(name):
        text = f"Topic '{name}' collides with existing topics: {other}"
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
    foreign = sorted(kept.hosts() - ctx.ottla_brokers)
    if foreign:
        text = (
            f"Brokers {','.join(map(str, foreign))} held replicas and are not Ottla's any more:"
            " start them as brokers of Ottla's first."
        )
        return KafkaError(ErrorCode.POLICY_VIOLATION, text)
    return None


def bring_back(ctx: ControllerContext, choice: Choice) -> Steps[KafkaError | None]:
    """Writes the wish and the znodes, then takes the topic in as a failover does."""
    wished = choice.entry._replace(kept=choice.kept._replace(undelete_as=choice.name))
    path = EndedTopicZnode.path(choice.topic_id)
    marked = yield from write([SetData(path, EndedTopicZnode.encode_entry(wished))])
    if failed(marked[0]):
        text = f"{path} cannot be written: {marked[0].error!r}"
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    error = yield from write_znodes(ctx, choice)
    if error is not None:
        return error
    del ctx.trash[choice.topic_id]
    return None


def write_znodes(ctx: ControllerContext, choice: Choice) -> Steps[KafkaError | None]:
    """May be done again after a crash at any point. The entry goes last."""
    name, topic_id, kept = choice.name, choice.topic_id, choice.kept
    path = TopicZnode.path(name)
    created = (yield from write([Create(path, TopicZnode.encode({}, topic_id))]))[0]
    if failed(created):
        node = (yield from get_paths([path]))[0]
        is_own = node is not None and TopicZnode.decode(node.data).topic_id == topic_id
        if not is_own:
            # Somebody was faster: the topic stays in the trash, without the wish.
            plain = EndedTopicZnode.encode_entry(choice.entry._replace(kept=_unmarked(kept)))
            yield from write([SetData(EndedTopicZnode.path(topic_id), plain)])
            if isinstance(created.error, NodeExistsError):
                text = f"Topic '{name}' already exists. Bring it back under another name (--as)."
                return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, text)
            text = f"{path} cannot be written: {created.error!r}"
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)
    config = ConfigZnode.path(ConfigZnode.TOPICS, name)
    data = ConfigZnode.encode(kept.configs)
    if failed((yield from write([Create(config, data)]))[0]):
        yield from write([SetData(config, data)])
    partitions = [TopicPartition(name, partition) for partition in kept.replicas]
    yield from write([Create(TopicPartitionsZnode.path(name))])
    yield from write([Create(TopicPartitionZnode.path(tp)) for tp in partitions])
    yield from write(
        [
            Create(
                TopicPartitionStateZnode.path(tp),
                TopicPartitionStateZnode.encode(_state(ctx, kept, tp.partition)),
            )
            for tp in partitions
        ]
    )
    yield from write([SetData(path, TopicZnode.encode(kept.assignment(), topic_id))])
    yield from write([Delete(EndedTopicZnode.path(topic_id))])
    ctx.journal.info(f"Topic {choice.entry.topic} is brought back from the trash as {name}")
    ctx.journal.record(
        "topic",
        topic=name,
        topic_id=topic_id,
        to_state="Undeleted",
        cause=None if name == choice.entry.topic else f"it was {choice.entry.topic}",
    )
    return None


def _unmarked(kept: Kept) -> Kept:
    return kept._replace(undelete_as=None)


def _state(ctx: ControllerContext, kept: Kept, partition: int) -> LeaderAndIsr:
    """Nobody leads yet. The election raises the epoch above all that the logs have seen."""
    return LeaderAndIsr(NO_LEADER, kept.leader_epoch, kept.isr(partition), ctx.epoch)


def take_in(ctx: ControllerContext, choice: Choice) -> Steps[None]:
    """The topic is in the store; its znode is watched. Replicas of brokers that are away come when
    those do, and a partition without a live member of its ISR waits for one."""
    name, kept = choice.name, choice.kept
    ctx.topics.add(name)
    ctx.topic_ids[name] = choice.topic_id
    partitions = [TopicPartition(name, partition) for partition in kept.replicas]
    for tp in partitions:
        ctx.set_assignment(tp, kept.assignment()[tp.partition])
        ctx.leadership[tp] = _state(ctx, kept, tp.partition)
        ctx.put_partition_state(tp, PartitionState.OFFLINE)
    gone = []
    for replica in ctx.replicas_of(partitions):
        if ctx.is_online(replica.broker_id, replica.topic_partition):
            ctx.put_replica_state(replica, ReplicaState.ONLINE)
        else:
            ctx.put_replica_state(replica, ReplicaState.DELETION_INELIGIBLE)
            gone.append(replica)
    yield from partition_machine.to_online(ctx, partitions, Strategy.OFFLINE)
    yield from replica_machine.to_offline(ctx, gone)
    unled = [tp for tp in partitions if ctx.partition_state(tp) is PartitionState.OFFLINE]
    yield from send_update_metadata(ctx, ctx.brokers, unled)


def resume(
    ctx: ControllerContext, stored: dict[TopicId, StoredEntry]
) -> Steps[dict[TopicId, StoredEntry]]:
    """Finishes what a controller that died had begun; returns the entries that are left."""
    left = {}
    for topic_id, (entry, version, age) in stored.items():
        kept = entry.kept
        if kept is None or kept.undelete_as is None:
            left[topic_id] = StoredEntry(entry, version, age)
            continue
        choice = Choice(topic_id, entry, kept, kept.undelete_as)
        if (yield from write_znodes(ctx, choice)) is not None:
            # The wish was taken back, which was one more write.
            plain = entry._replace(kept=_unmarked(kept))
            left[topic_id] = StoredEntry(plain, version + 1, age)
    return left
