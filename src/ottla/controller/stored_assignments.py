"""Assignments in the store: in the topics' znodes, and what is left of them in the admin node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.controller.context import ControllerContext
from ottla.controller.events import ZkPartitionReassignment
from ottla.controller.steps import Post, Steps, failed, get_paths, write
from ottla.metadata.store import Delete, SetData
from ottla.metadata.znodes import (
    MAX_ZNODE_BYTES,
    ReassignPartitionsZnode,
    ReplicaAssignment,
    TopicZnode,
)
from ottla.types import TopicPartition

Moves = Mapping[TopicPartition, ReplicaAssignment]


def write_assignments(ctx: ControllerContext, moves: Moves) -> Steps[set[TopicPartition]]:
    """One write per topic; the partitions of topics whose znode could not be written."""
    by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
    for tp, move in moves.items():
        if tp.topic not in by_topic:  # a copy per topic, not per partition
            by_topic[tp.topic] = dict(ctx.topic_assignment(tp.topic))
        by_topic[tp.topic][tp.partition] = move
    encoded = {
        topic: TopicZnode.encode(partitions, ctx.topic_ids.get(topic))
        for topic, partitions in by_topic.items()
    }
    # Moves are stored beside the replicas: what a topic has may fit a node while this does not.
    unwritten = {topic for topic, data in encoded.items() if len(data) > MAX_ZNODE_BYTES}
    for topic in unwritten:
        size = len(encoded.pop(topic))
        ctx.journal.error(f"The assignment of topic {topic} is too large for a node: {size} bytes")
    results = yield from write(
        [SetData(TopicZnode.path(topic), data) for topic, data in encoded.items()]
    )
    for topic, result in zip(encoded, results, strict=True):
        if failed(result):
            ctx.journal.error(f"The assignment of topic {topic} was not written: {result.error!r}")
            unwritten.add(topic)
    for tp, move in moves.items():
        if tp.topic not in unwritten:
            ctx.journal.info(f"Successfully updated assignment of partition {tp} to {_text(move)}")
    return {tp for tp in moves if tp.topic in unwritten}


def remove_from_admin_node(
    ctx: ControllerContext, is_done: Callable[[TopicPartition, tuple[int, ...]], bool]
) -> Steps[None]:
    """Takes partitions out of /admin/reassign_partitions; the empty node goes."""
    path = ReassignPartitionsZnode.path()
    node = (yield from get_paths([path]))[0]
    if node is None:
        return
    listed = ReassignPartitionsZnode.decode(node.data)
    left = {tp: replicas for tp, replicas in listed.items() if not is_done(tp, replicas)}
    if not left:
        ctx.journal.info(f"No more partitions need to be reassigned. Deleting zk path {path}")
        yield from write([Delete(path)])
        # Watches for the next one.
        yield Post(ZkPartitionReassignment())
    elif left != listed:
        yield from write([SetData(path, ReassignPartitionsZnode.encode(left))])


def _text(assignment: ReplicaAssignment) -> str:
    replicas, adding, removing = (",".join(map(str, listed)) for listed in assignment)
    return (
        f"ReplicaAssignment(replicas={replicas}, addingReplicas={adding},"
        f" removingReplicas={removing})"
    )
