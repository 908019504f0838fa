"""A rename in the store: its entry, and the topic's znodes from one name to the other.

The new name appears in one transaction with the phase MOVING, and from then on each step can be
done again: a partition's state under the new name is never written twice, and the old one goes only
when it is there. Topics of any size fit: no transaction holds more than the interpreter's measure.
"""

from __future__ import annotations

from ottla.controller.context import ControllerContext, Rename
from ottla.controller.steps import (
    Steps,
    get_children,
    get_paths,
    sure,
    write,
    write_together,
)
from ottla.controller.stored_assignments import remove_name
from ottla.controller.stored_leadership import read_states_to_move
from ottla.metadata.renames import RenamePhase, RenameZnode, StoredRename
from ottla.metadata.store import (
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
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
    TopicZnode,
)
from ottla.types import TopicId, TopicPartition


def announce(topic_id: TopicId, rename: StoredRename) -> Steps[bool]:
    """Writes the entry of a rename that begins; whether it stands."""
    path, data = RenameZnode.path(topic_id), RenameZnode.encode(rename)
    for parent in ("/ottla", RenameZnode.parent()):
        yield from write([Create(parent)])
    result = (yield from write([Create(path, data)]))[0]
    if isinstance(result.error, NodeExistsError):
        # No rename that this controller knows of: what is there could not be read.
        result = (yield from write([SetData(path, data)]))[0]
    return result.error is None


def forget(topic_id: TopicId) -> Steps[None]:
    yield from write([Delete(RenameZnode.path(topic_id))])


def swap(rename: Rename) -> Steps[bool]:
    """The point of no return: the new name stands in the store. False where something of it has
    changed since it was looked at, and then nothing is done."""
    source, target, _ = rename.stored
    entry_path = RenameZnode.path(rename.topic_id)
    old_config, new_config = (
        ConfigZnode.path(ConfigZnode.TOPICS, name) for name in (source, target)
    )
    entry, topic, taken, config, present, deletion = yield from get_paths(
        [
            entry_path,
            TopicZnode.path(source),
            TopicZnode.path(target),
            old_config,
            new_config,
            DeleteTopicZnode.path(source),
        ]
    )
    if entry is None or topic is None or taken is not None or deletion is not None:
        return False
    moving = rename.stored._replace(phase=RenamePhase.MOVING)
    # The entry comes first: by it a write whose answer got lost is recognised.
    ops: list[Op] = [
        SetData(entry_path, RenameZnode.encode(moving), entry.stat.version),
        Check(TopicZnode.path(source), topic.stat.version),
        Create(TopicZnode.path(target), topic.data),
    ]
    data = ConfigZnode.encode({}) if config is None else config.data
    ops.append(Create(new_config, data) if present is None else SetData(new_config, data))
    done = yield from write_together(ops)
    if done:
        rename.stored = moving
    return done


def move(ctx: ControllerContext, topic_id: TopicId, rename: StoredRename) -> Steps[StoredRename]:
    """Partitions and their states, then the end of the old name. Leader epochs rise, so that
    brokers take the order for a partition whose leader stays."""
    source, target, _ = rename
    node = (yield from get_paths([TopicZnode.path(target)]))[0]
    partitions = [] if node is None else sorted(TopicZnode.decode(node.data).partitions)
    sources = [TopicPartition(source, number) for number in partitions]
    states = yield from read_states_to_move(ctx, sources)
    yield from sure([Create(TopicPartitionsZnode.path(target))])
    yield from sure(
        [Create(TopicPartitionZnode.path(TopicPartition(target, number))) for number in partitions]
    )
    yield from sure(
        [
            Create(
                TopicPartitionStateZnode.path(TopicPartition(target, tp.partition)),
                TopicPartitionStateZnode.encode(
                    state._replace(leader_epoch=state.leader_epoch + 1, controller_epoch=ctx.epoch)
                ),
            )
            for tp, state in states.items()
        ]
    )
    yield from remove_name(source, partitions)
    carrying = rename._replace(phase=RenamePhase.CARRYING)
    yield from sure([SetData(RenameZnode.path(topic_id), RenameZnode.encode(carrying))])
    return carrying


def take_over(ctx: ControllerContext) -> Steps[None]:
    """A new controller, before it reads the topics: what an earlier one had begun is taken back
    if nobody can have seen it, and goes on otherwise."""
    names = yield from get_children(RenameZnode.parent())
    ids = [found for found in map(RenameZnode.topic_id, names) if found is not None]
    nodes = yield from get_paths([RenameZnode.path(topic_id) for topic_id in ids])
    for topic_id, node in zip(ids, nodes, strict=True):
        rename = None if node is None else RenameZnode.decode(node.data)
        if node is None:
            continue
        if rename is None:
            ctx.journal.error(f"{RenameZnode.path(topic_id)} cannot be read and is left alone")
            continue
        if rename.phase is RenamePhase.FENCING:
            ctx.journal.info(f"The rename of {rename.source} to {rename.target} is taken back")
            yield from forget(topic_id)
            continue
        if rename.phase is RenamePhase.MOVING:
            ctx.journal.info(f"The rename of {rename.source} to {rename.target} goes on")
            rename = yield from move(ctx, topic_id, rename)
        ctx.renames[topic_id] = Rename(topic_id, rename)
