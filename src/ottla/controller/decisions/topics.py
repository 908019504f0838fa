"""Topic znodes appear, vanish and get more partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.controller import ended_topics, partition_machine, replica_machine
from ottla.controller.context import ControllerContext
from ottla.controller.election import Strategy
from ottla.controller.events import PartitionModifications, TopicChange, TopicDeletion
from ottla.controller.steps import (
    Post,
    Read,
    Steps,
    failed,
    get_children,
    get_nodes,
    get_paths,
    write,
)
from ottla.metadata.store import SetData
from ottla.metadata.znodes import (
    ReplicaAssignment,
    TopicAssignment,
    TopicPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)
from ottla.types import TopicId, TopicPartition


def read_topics(ctx: ControllerContext, topics: Iterable[str]) -> Steps[dict[str, TopicAssignment]]:
    """Reads and watches topic znodes. Garbage is a topic without partitions, as in Kafka."""
    listed = sorted(topics)
    nodes = yield from get_nodes(
        [Read(TopicZnode.path(topic), PartitionModifications(topic)) for topic in listed]
    )
    found = {}
    for topic, node in zip(listed, nodes, strict=True):
        if node is None:
            continue
        found[topic] = TopicZnode.decode(node.data)
        if not found[topic].partitions:
            ctx.journal.error(f"Topic {topic} has no readable partition in its znode")
    return found


def give_topic_ids(
    ctx: ControllerContext, assignments: Mapping[str, TopicAssignment]
) -> Steps[None]:
    """Writes an id into every topic znode without one (old tools' work) or with that of another
    topic, and learns the rest.

    Garbage is left as it is: rewriting it would lose what somebody may still repair.
    """
    missing = {}
    copies = yield from _copied_ids(ctx, assignments)
    for topic, assignment in assignments.items():
        if assignment.topic_id is not None and topic not in copies:
            ctx.topic_ids.setdefault(topic, assignment.topic_id)
        elif assignment.partitions:
            missing[topic] = ctx.topic_ids.get(topic) or ctx.new_topic_id()
    results = yield from write(
        [
            SetData(
                TopicZnode.path(topic),
                TopicZnode.encode(assignments[topic].partitions, topic_id),
            )
            for topic, topic_id in missing.items()
        ]
    )
    for (topic, topic_id), result in zip(missing.items(), results, strict=True):
        if failed(result):
            ctx.journal.error(f"Topic {topic} got no topic id: {result.error!r}")
        else:
            ctx.topic_ids[topic] = topic_id


def _copied_ids(
    ctx: ControllerContext, assignments: Mapping[str, TopicAssignment]
) -> Steps[set[str]]:
    """Topics whose znodes carry the id of another one: somebody has copied a znode. Brokers find
    the logs of a renamed topic by its id (ADR 51) and would take those of the other topic. The
    topic that is known keeps the id, else the one whose znode is older."""
    sharing: dict[TopicId, list[str]] = {}
    for topic, assignment in assignments.items():
        if assignment.topic_id is not None and topic not in ctx.topic_ids:
            sharing.setdefault(assignment.topic_id, []).append(topic)
    copies: set[str] = set()
    for topic_id, names in sharing.items():
        owner = ctx.topic_ids.name_of(topic_id)
        if owner is None and len(names) > 1:
            nodes = yield from get_paths([TopicZnode.path(name) for name in names])
            ages = [
                (node.stat.czxid, name)
                for name, node in zip(names, nodes, strict=True)
                if node is not None
            ]
            owner = min(ages, default=(0, names[0]))[1]
        if owner is not None:
            copies.update(names)
            copies.discard(owner)
    for topic in sorted(copies):
        ctx.journal.error(
            f"Topic {topic} has the topic id of another topic and gets one of its own"
        )
    return copies


def on_topic_change(ctx: ControllerContext, event: TopicChange) -> Steps[None]:
    names = yield from get_children(TopicsZnode.path(), event)
    ctx.journal.debug(
        "Topic change listener fired for path %s with children %s", TopicsZnode.path(), names
    )
    new = set(names) - ctx.topics
    deleted = ctx.topics - set(names)
    if deleted & ctx.topics_to_delete:
        # Removed by hand before its deletion was done: what is left in /admin must go too.
        yield Post(TopicDeletion())
    for topic in sorted(deleted):
        ctx.journal.record("topic", topic=topic, to_state="Vanished")
        ctx.remove_topic(topic)
    ctx.topics.update(new)
    assignments = yield from read_topics(ctx, new)
    yield from give_topic_ids(ctx, assignments)
    yield from ended_topics.revive(ctx, assignments)
    created = {
        TopicPartition(topic, partition): replicas
        for topic, assignment in assignments.items()
        for partition, replicas in sorted(assignment.partitions.items())
    }
    ctx.journal.info(
        f"New topics: [{','.join(sorted(new))}], deleted topics: [{','.join(sorted(deleted))}],"
        f" new partition replica assignment [{_describe(created)}]"
    )
    for topic in sorted(assignments):
        ctx.journal.record(
            "topic", topic=topic, topic_id=ctx.topic_ids.get(topic), to_state="Created"
        )
    yield from create_partitions(ctx, created)


def on_partition_modifications(
    ctx: ControllerContext, event: PartitionModifications
) -> Steps[None]:
    topic = event.topic
    if topic not in ctx.topics:
        # Deleted, or not yet seen: TopicChange reads it and watches it.
        return
    assignments = yield from read_topics(ctx, [topic])
    if topic not in assignments:
        return
    added = {
        TopicPartition(topic, partition): replicas
        for partition, replicas in sorted(assignments[topic].partitions.items())
        if not ctx.assignment(TopicPartition(topic, partition)).replicas
    }
    if ctx.is_queued_for_deletion(topic):
        if added:
            ctx.journal.warn(
                f"Skipping adding partitions {','.join(str(tp.partition) for tp in added)} for"
                f" topic {topic} since it is currently being deleted"
            )
            yield from _restore_assignment(ctx, topic)
        else:
            ctx.journal.info("Ignoring partition change during topic deletion: nothing was added")
        return
    yield from give_topic_ids(ctx, assignments)
    if added:
        ctx.journal.info(f"New partitions to be added [{_describe(added)}]")
        yield from create_partitions(ctx, added)


def create_partitions(
    ctx: ControllerContext, created: Mapping[TopicPartition, ReplicaAssignment]
) -> Steps[None]:
    """onNewPartitionCreation: New, New replicas, Online, Online replicas."""
    for tp, assignment in created.items():
        ctx.set_assignment(tp, assignment)
    if not created:
        return
    ctx.journal.info(f"New partition creation callback for {','.join(map(str, created))}")
    replicas = ctx.replicas_of(created)
    partition_machine.to_new(ctx, created)
    yield from replica_machine.to_new(ctx, replicas)
    yield from partition_machine.to_online(ctx, created, Strategy.OFFLINE)
    yield from replica_machine.to_online(ctx, replicas)


def _restore_assignment(ctx: ControllerContext, topic: str) -> Steps[None]:
    """Takes partitions away again that were added while the topic is being deleted."""
    ctx.journal.info(f"Restoring the partition replica assignment for topic {topic}")
    existing = yield from get_children(TopicPartitionsZnode.path(topic))
    kept = {
        partition: assignment
        for partition, assignment in ctx.topic_assignment(topic).items()
        if str(partition) in existing
    }
    yield from write(
        [SetData(TopicZnode.path(topic), TopicZnode.encode(kept, ctx.topic_ids.get(topic)))]
    )


def _describe(assignments: Mapping[TopicPartition, ReplicaAssignment]) -> str:
    return ", ".join(f"{tp} -> {list(a.replicas)}" for tp, a in assignments.items())
