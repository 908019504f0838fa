"""Assignments in the store: in the topics' znodes, and what is left of them in the admin node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ottla.controller.context import ControllerContext
from ottla.controller.events import ZkPartitionReassignment
from ottla.controller.steps import Post, Steps, failed, get_children, get_paths, sure, write
from ottla.metadata.store import ANY_VERSION, Delete, SetData
from ottla.metadata.znodes import (
    MAX_ZNODE_BYTES,
    ConfigZnode,
    DeleteTopicZnode,
    ReassignPartitionsZnode,
    ReplicaAssignment,
    TopicPartitionStateZnode,
    TopicPartitionsZnode,
    TopicPartitionZnode,
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


def partition_numbers(topic: str) -> Steps[list[int]]:
    """Those that have a znode."""
    found = yield from get_children(TopicPartitionsZnode.path(topic))
    return sorted(int(name) for name in found if name.isascii() and name.isdecimal())


def remove_partitions(partitions: Iterable[TopicPartition]) -> Steps[None]:
    """Their znodes, from the leaves up."""
    every = list(partitions)
    yield from sure([Delete(TopicPartitionStateZnode.path(tp)) for tp in every])
    yield from sure([Delete(TopicPartitionZnode.path(tp)) for tp in every])


def remove_name(topic: str, partitions: Iterable[int]) -> Steps[None]:
    """Everything that stands under a name whose topic has another one now, from the leaves up; what
    was done before is not there any more."""
    numbers = {*partitions, *(yield from partition_numbers(topic))}
    yield from remove_partitions(TopicPartition(topic, number) for number in sorted(numbers))
    yield from sure([Delete(TopicPartitionsZnode.path(topic))])
    yield from sure([Delete(TopicZnode.path(topic))])
    yield from sure([Delete(ConfigZnode.path(ConfigZnode.TOPICS, topic))])
    # Asked for while the name was still there: it is not this topic's any more.
    yield from sure([Delete(DeleteTopicZnode.path(topic), ANY_VERSION)])
