"""The evidence that a topic was deleted and not lost: `/ottla/ended/<topic id>` (ADR 28).

An entry stands before the topic's znode goes and names Ottla's brokers that are down. Each strikes
itself off when it is back and has no log of the topic; the last one removes the entry. Entries that
wait for nobody stay for a while: a broker that is up may have a log from before a move of which it
was not told, and looks here when a new controller speaks to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.controller.context import ControllerContext
from ottla.controller.steps import Steps, failed, get_children, get_paths, write
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.store import Create, Delete, NodeExistsError, NoNodeError, SetData
from ottla.metadata.znodes import TopicZnode
from ottla.types import TopicId, format_topic_id

# Entries that wait for nobody.
MAX_SETTLED = 100
# Beyond that the logs of the oldest become strays: kept on their brokers, for a person to look at.
# A list of children must stay below ZooKeeper's 1 MiB.
MAX_WAITING = 10_000


def announce(ctx: ControllerContext, topics: list[str]) -> Steps[list[str]]:
    """Writes the entries of topics whose znodes are about to go; returns those that may go."""
    if not ctx.ottla_brokers:
        return topics
    down = sorted(ctx.ottla_brokers - ctx.brokers.keys())
    ids = yield from _stored_ids(topics)
    unwritten = yield from _create(ids, down)
    if unwritten:
        for path in ("/ottla", EndedTopicZnode.parent()):
            yield from write([Create(path)])
        unwritten = yield from _create({topic: ids[topic] for topic in unwritten}, down)
    for topic, topic_id in ids.items():
        if topic not in unwritten:
            ctx.ended.pop(topic_id, None)
            ctx.ended[topic_id] = bool(down)
    if unwritten:
        ctx.journal.error(
            f"Deletion of topics {','.join(unwritten)} is put off: {EndedTopicZnode.parent()}"
            " cannot be written"
        )
    yield from _prune(ctx)
    return [topic for topic in topics if topic not in unwritten]


def _stored_ids(topics: list[str]) -> Steps[dict[str, TopicId]]:
    """What is about to go is what stands in the store, whoever wrote it there."""
    nodes = yield from get_paths([TopicZnode.path(topic) for topic in topics])
    found = {}
    for topic, node in zip(topics, nodes, strict=True):
        topic_id = None if node is None else TopicZnode.decode(node.data).topic_id
        if topic_id is not None:
            found[topic] = topic_id
    return found


def _create(ids: dict[str, TopicId], down: list[int]) -> Steps[list[str]]:
    """Returns the topics that have no entry yet."""
    results = yield from write(
        [
            Create(EndedTopicZnode.path(topic_id), EndedTopicZnode.encode(topic, down))
            for topic, topic_id in ids.items()
        ]
    )
    named = list(zip(ids, results, strict=True))
    # A controller that died had written it: who is down now counts, the others were asked.
    again = [topic for topic, result in named if isinstance(result.error, NodeExistsError)]
    rewritten = yield from write(
        [
            SetData(EndedTopicZnode.path(ids[topic]), EndedTopicZnode.encode(topic, down))
            for topic in again
        ]
    )
    unwritten = [topic for topic, result in named if failed(result, NodeExistsError)]
    return unwritten + [
        topic for topic, result in zip(again, rewritten, strict=True) if failed(result)
    ]


def take_over(ctx: ControllerContext) -> Steps[None]:
    """Reads the entries of earlier controllers, and takes away what does not hold any more: the
    entry of a topic that stays after all, and brokers that are not Ottla's any more."""
    names = yield from get_children(EndedTopicZnode.parent())
    ids = [found for found in map(EndedTopicZnode.topic_id, names) if found is not None]
    nodes = yield from get_paths([EndedTopicZnode.path(topic_id) for topic_id in ids])
    staying = {
        topic_id
        for topic, topic_id in ctx.topic_ids.items()
        if not ctx.is_queued_for_deletion(topic)
    }
    ages: dict[TopicId, int] = {}
    waiting: dict[TopicId, bool] = {}
    changes: list[SetData | Delete] = []
    for topic_id, node in zip(ids, nodes, strict=True):
        entry = None if node is None else EndedTopicZnode.decode(node.data)
        if node is None or entry is None:
            continue
        path = EndedTopicZnode.path(topic_id)
        if topic_id in staying:
            ctx.journal.warn(f"Topic {entry.topic} was not deleted after all: {path} goes")
            changes.append(Delete(path, node.stat.version))
            continue
        brokers = [broker for broker in entry.brokers if broker in ctx.ottla_brokers]
        if len(brokers) < len(entry.brokers):
            data = EndedTopicZnode.encode(entry.topic, brokers)
            changes.append(SetData(path, data, node.stat.version))
        ages[topic_id], waiting[topic_id] = node.stat.czxid, bool(brokers)
    yield from write(changes)
    ctx.ended.update(
        {topic_id: waiting[topic_id] for topic_id in sorted(ages, key=ages.__getitem__)}
    )
    yield from _prune(ctx)


def revive(ctx: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    """A znode of a deleted topic was written again, with its id: the topic has not ended."""
    back = [ctx.topic_ids[t] for t in topics if ctx.topic_ids.get(t) in ctx.ended]
    yield from write([Delete(EndedTopicZnode.path(topic_id)) for topic_id in back])
    for topic_id in back:
        del ctx.ended[topic_id]


def _prune(ctx: ControllerContext) -> Steps[None]:
    settled = [topic_id for topic_id, waits in ctx.ended.items() if not waits]
    waiting = [topic_id for topic_id, waits in ctx.ended.items() if waits]
    given_up = waiting[: max(0, len(waiting) - MAX_WAITING)]
    if given_up:
        ctx.journal.warn(
            f"{len(given_up)} deleted topics are not remembered any longer, their brokers are away"
            f" for too long: {_join(given_up[:10])}"
        )
    old = settled[: max(0, len(settled) - MAX_SETTLED)] + given_up
    results = yield from write([Delete(EndedTopicZnode.path(topic_id)) for topic_id in old])
    for topic_id, result in zip(old, results, strict=True):
        if not failed(result, NoNodeError):
            del ctx.ended[topic_id]


def _join(topic_ids: Iterable[TopicId]) -> str:
    return ", ".join(map(format_topic_id, topic_ids))
