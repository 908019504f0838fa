"""A resize in the store: its entry, and the znodes of both topics when the name changes hands.

In one transaction the name gets the new topic's id and assignment, the old topic's entry in
`/ottla/ended` appears, and the phase becomes MOVING. From then on each step can be done again: a
partition's state is taken from the shadow as long as it is there, and the shadow goes last.
"""

from __future__ import annotations

from ottla.controller.context import ControllerContext, Resize
from ottla.controller.steps import (
    Steps,
    get_children,
    get_paths,
    sure,
    write,
    write_together,
)
from ottla.controller.stored_assignments import (
    partition_numbers,
    remove_name,
    remove_partitions,
)
from ottla.controller.stored_leadership import read_states, read_states_to_move
from ottla.controller.trash import keeping
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.resizes import ResizePhase, ResizeZnode, StoredResize
from ottla.metadata.store import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    NodeExistsError,
    Op,
    SetData,
)
from ottla.metadata.znodes import (
    ConfigZnode,
    DeleteTopicZnode,
    LeaderAndIsr,
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicZnode,
)
from ottla.topics.configs import delete_retention_ms, is_protected
from ottla.topics.key_guard import KEY_GUARD, KeyGuard
from ottla.topics.partitioners import Partitioner
from ottla.types import TopicId, TopicPartition

# How long a producer may choose partitions by the old number (metadata.max.age.ms, five minutes by
# default) and hold what it has chosen them for (delivery.timeout.ms, two), and some more.
GUARD_MS = 600_000


def announce(resize: StoredResize) -> Steps[bool]:
    """Writes the entry of a resize that begins; whether it stands."""
    for parent in ("/ottla", ResizeZnode.parent()):
        yield from write([Create(parent)])
    path, data = ResizeZnode.path(resize.topic_id), ResizeZnode.encode(resize)
    result = (yield from write([Create(path, data)]))[0]
    if isinstance(result.error, NodeExistsError):
        # No resize that this controller knows of: what is there could not be read.
        result = (yield from write([SetData(path, data)]))[0]
    return result.error is None


def note(resize: StoredResize) -> Steps[None]:
    """Raises StoreError: a controller that cannot write what it is about to do resigns."""
    yield from sure([SetData(ResizeZnode.path(resize.topic_id), ResizeZnode.encode(resize))])


def forget(resize: StoredResize) -> Steps[None]:
    yield from sure([Delete(ResizeZnode.path(resize.topic_id), ANY_VERSION)])


def delete_shadow(resize: StoredResize) -> Steps[None]:
    """The store is asked, since a shadow that is only just made may not be known here yet."""
    if (yield from get_paths([TopicZnode.path(resize.shadow)]))[0] is not None:
        yield from sure([Create(DeleteTopicZnode.path(resize.shadow))])


def configs_of(topic: str) -> Steps[dict[str, str]]:
    node = (yield from get_paths([ConfigZnode.path(ConfigZnode.TOPICS, topic)]))[0]
    return {} if node is None else ConfigZnode.decode(node.data)


def swap(ctx: ControllerContext, resize: Resize) -> Steps[EndedTopic | KafkaError | str]:
    """The point of no return. What has ended, or why it has not: then nothing is done. An error is
    for a person to look at; otherwise it may be tried again."""
    stored = resize.stored
    entry_path = ResizeZnode.path(stored.topic_id)
    paths = [
        entry_path,
        TopicZnode.path(stored.topic),
        TopicZnode.path(stored.shadow),
        DeleteTopicZnode.path(stored.topic),
        DeleteTopicZnode.path(stored.shadow),
        ConfigZnode.path(ConfigZnode.TOPICS, stored.topic),
    ]
    entry, old, new, old_deletion, new_deletion, config = yield from get_paths(paths)
    if entry is None or old is None or new is None:
        return "the topic or its shadow is gone"
    ids = (TopicZnode.decode(old.data).topic_id, TopicZnode.decode(new.data).topic_id)
    if ids != (stored.topic_id, stored.shadow_id):
        return "the topic or its shadow was made again"
    if old_deletion is not None or new_deletion is not None:
        return "the topic or its shadow is being deleted"
    configs = {} if config is None else ConfigZnode.decode(config.data)
    ended = what_ends(ctx, stored.topic, configs)
    if isinstance(ended, KafkaError):
        return ended
    for parent in ("/ottla", EndedTopicZnode.parent()):
        yield from write([Create(parent)])
    moving = stored._replace(phase=ResizePhase.MOVING)
    # The entry comes first: by it a write whose answer got lost is recognised.
    ops: list[Op] = [
        SetData(entry_path, ResizeZnode.encode(moving), entry.stat.version),
        SetData(TopicZnode.path(stored.topic), new.data, old.stat.version),
        Check(TopicZnode.path(stored.shadow), new.stat.version),
        Create(EndedTopicZnode.path(stored.topic_id), EndedTopicZnode.encode_entry(ended)),
    ]
    guarded = _guarded(ctx, resize, configs)
    if guarded != configs:
        data = ConfigZnode.encode(guarded)
        ops.append(
            Create(paths[-1], data)
            if config is None
            else SetData(paths[-1], data, config.stat.version)
        )
    if not (yield from write_together(ops)):
        return "the topic or its shadow has changed meanwhile"
    resize.stored = moving
    return ended


def _guarded(ctx: ControllerContext, resize: Resize, configs: dict[str, str]) -> dict[str, str]:
    """The topic's configs with the guard of this resize, and without that of an earlier one."""
    guarded = {name: value for name, value in configs.items() if name != KEY_GUARD}
    if resize.guards_keys:
        partitioner = Partitioner(resize.stored.partitioner)
        guarded[KEY_GUARD] = KeyGuard(partitioner, ctx.now_ms() + GUARD_MS).encode()
    return guarded


def what_ends(
    ctx: ControllerContext, topic: str, configs: dict[str, str]
) -> EndedTopic | KafkaError:
    """The old topic goes to the trash where it would when deleted, and stays where a deletion is
    refused."""
    if is_protected(configs):
        return KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "The topic is protected, and a resize ends the old one: set its config"
            " ottla.delete.protect to false first.",
        )
    retention_ms = delete_retention_ms(configs, ctx.config.delete_retention_ms)
    if retention_ms > 0:
        kept = keeping.make_entry(ctx, topic, configs, retention_ms)
        # It shares a packet with the assignments of both topics.
        reason = keeping.no_room(ctx, kept, max_bytes=keeping.MAX_ENTRY_BYTES // 2)
        if reason is None:
            return kept
        text = f"Topic '{topic}' is not resized: {reason}."
        return KafkaError(ErrorCode.POLICY_VIOLATION, text)
    # Also those that are up: they end their logs after the name has changed hands, and may not find
    # the entry any more if the others have struck themselves off by then.
    hosts = {r.broker_id for r in ctx.replicas_of(ctx.partitions_of(topic))}
    return EndedTopic(topic, tuple(sorted(hosts | keeping.down(ctx))))


def move(ctx: ControllerContext, stored: StoredResize) -> Steps[StoredResize]:
    """The states of the new topic's partitions come under the name, above every leader epoch that
    either topic has had; what is left of the old ones and of the shadow goes."""
    topic, shadow = stored.topic, stored.shadow
    partitions = list(range(stored.partitions))
    old = yield from partition_numbers(topic)
    shadows = [TopicPartition(shadow, number) for number in partitions]
    states = yield from read_states_to_move(ctx, shadows)
    before = yield from read_states([TopicPartition(topic, number) for number in old])
    above = max((state.leader_epoch for state in before.values()), default=-1)
    yield from sure([Create(TopicPartitionsZnode.path(topic))])
    yield from sure(
        [Create(TopicPartitionZnode.path(TopicPartition(topic, number))) for number in partitions]
    )
    moved = {
        TopicPartition(topic, tp.partition): state._replace(
            leader_epoch=max(state.leader_epoch, above) + 1, controller_epoch=ctx.epoch
        )
        for tp, state in states.items()
    }
    yield from _put_states(moved)
    surplus = [TopicPartition(topic, number) for number in old if number >= stored.partitions]
    yield from remove_partitions(surplus)
    yield from remove_name(shadow, partitions)
    carrying = stored._replace(phase=ResizePhase.CARRYING)
    yield from note(carrying)
    return carrying


def _put_states(states: dict[TopicPartition, LeaderAndIsr]) -> Steps[None]:
    data = {
        TopicPartitionStateZnode.path(tp): TopicPartitionStateZnode.encode(state)
        for tp, state in states.items()
    }
    # Never empty, whoever looks in between.
    yield from sure([Create(path, value) for path, value in data.items()])
    yield from sure([SetData(path, value) for path, value in data.items()])


def take_over(ctx: ControllerContext) -> Steps[None]:
    """A new controller, before it reads the topics: a fence of an earlier one is lifted (brokers
    see that in the entry), and a swap that has begun is finished."""
    names = yield from get_children(ResizeZnode.parent())
    ids = [found for found in map(ResizeZnode.topic_id, names) if found is not None]
    nodes = yield from get_paths([ResizeZnode.path(topic_id) for topic_id in ids])
    for topic_id, node in zip(ids, nodes, strict=True):
        stored = None if node is None else ResizeZnode.decode(node.data)
        if node is None:
            continue
        if stored is None or stored.topic_id != topic_id:
            ctx.journal.error(f"{ResizeZnode.path(topic_id)} cannot be read and is left alone")
            continue
        ctx.resizes[topic_id] = Resize((yield from _taken_over(ctx, stored)))


def _taken_over(ctx: ControllerContext, stored: StoredResize) -> Steps[StoredResize]:
    if stored.phase is ResizePhase.FENCED:
        ctx.journal.info(f"The fence of {stored.topic}, which is being resized, is lifted")
        stored = stored._replace(phase=ResizePhase.COPYING)
        yield from note(stored)
    elif stored.phase is ResizePhase.MOVING:
        ctx.journal.info(f"The resize of {stored.topic} goes on")
        stored = yield from move(ctx, stored)
    return stored


def is_gone(ctx: ControllerContext, topic: str, topic_id: TopicId) -> bool:
    """Whether another topic, or none, has the name now."""
    return ctx.topic_ids.get(topic) != topic_id
