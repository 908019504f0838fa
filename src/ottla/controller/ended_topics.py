"""The evidence that a topic was deleted and not lost: `/ottla/ended/<topic id>` (ADR 28).

An entry stands before the topic's znode goes and names Ottla's brokers that are down. Each strikes
itself off when it is back and has no log of the topic. Entries that wait for nobody stay for a
while: a broker that is up may have a log from before a move of which it was not told, and looks
here when a new controller speaks to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.controller.context import ControllerContext
from ottla.controller.steps import Steps, failed, get_children, get_paths, write
from ottla.metadata.ended import MAX_SETTLED, EndedTopic, EndedTopicZnode, StoredEntry
from ottla.metadata.store import Create, Delete, NodeExistsError, NoNodeError, SetData
from ottla.metadata.znodes import TopicZnode
from ottla.types import TopicId, format_topic_id

# Beyond that the logs of the oldest become strays: kept on their brokers, for a person to look at.
# A list of children must stay below ZooKeeper's 1 MiB.
MAX_WAITING = 10_000


def announce(ctx: ControllerContext, topics: list[str]) -> Steps[list[str]]:
    """Writes the entries of topics whose znodes are about to go; returns those that may go."""
    if not ctx.ottla_brokers:
        return topics
    down = sorted(ctx.ottla_brokers - ctx.brokers.keys())
    ids = yield from _stored_ids(topics)
    entries = {topic: _entry(ctx, topic, topic_id, down) for topic, topic_id in ids.items()}
    unwritten = yield from _create(ids, entries)
    if unwritten:
        for path in ("/ottla", EndedTopicZnode.parent()):
            yield from write([Create(path)])
        unwritten = yield from _create({topic: ids[topic] for topic in unwritten}, entries)
    for topic, topic_id in ids.items():
        if topic not in unwritten:
            ctx.ended.pop(topic_id, None)
            if topic_id in ctx.trash:
                ctx.trash[topic_id] = entries[topic]
            else:
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


def _entry(ctx: ControllerContext, topic: str, topic_id: TopicId, down: list[int]) -> EndedTopic:
    """Of a topic in the trash it is there already, but other brokers may be down by now."""
    kept = ctx.trash.get(topic_id)
    if kept is None:
        return EndedTopic(topic, tuple(down))
    return kept._replace(brokers=tuple(sorted({*kept.brokers, *down})))


def _create(ids: dict[str, TopicId], entries: Mapping[str, EndedTopic]) -> Steps[list[str]]:
    """Returns the topics that have no entry yet."""
    data = {topic: EndedTopicZnode.encode_entry(entries[topic]) for topic in ids}
    results = yield from write(
        [Create(EndedTopicZnode.path(topic_id), data[topic]) for topic, topic_id in ids.items()]
    )
    named = list(zip(ids, results, strict=True))
    # A controller that died had written it: who is down now counts, the others were asked.
    again = [topic for topic, result in named if isinstance(result.error, NodeExistsError)]
    rewritten = yield from write(
        [SetData(EndedTopicZnode.path(ids[topic]), data[topic]) for topic in again]
    )
    unwritten = [topic for topic, result in named if failed(result, NodeExistsError)]
    return unwritten + [
        topic for topic, result in zip(again, rewritten, strict=True) if failed(result)
    ]


def read() -> Steps[dict[TopicId, StoredEntry]]:
    """The entries of earlier controllers; garbage is left out."""
    names = yield from get_children(EndedTopicZnode.parent())
    ids = [found for found in map(EndedTopicZnode.topic_id, names) if found is not None]
    nodes = yield from get_paths([EndedTopicZnode.path(topic_id) for topic_id in ids])
    stored = {}
    for topic_id, node in zip(ids, nodes, strict=True):
        entry = None if node is None else EndedTopicZnode.decode(node.data)
        if node is not None and entry is not None:
            stored[topic_id] = StoredEntry(entry, node.stat.version, node.stat.czxid)
    return stored


def take_over(ctx: ControllerContext, stored: Mapping[TopicId, StoredEntry]) -> Steps[None]:
    """Takes away what does not hold any more: the entry of a topic that stays after all, and
    brokers that are not Ottla's any more."""
    staying = {
        topic_id
        for topic, topic_id in ctx.topic_ids.items()
        if not ctx.is_queued_for_deletion(topic)
    }
    waiting: dict[TopicId, bool] = {}
    changes: list[SetData | Delete] = []
    for topic_id, (entry, version, _) in stored.items():
        path = EndedTopicZnode.path(topic_id)
        if topic_id in staying:
            ctx.journal.warn(f"Topic {entry.topic} was not deleted after all: {path} goes")
            changes.append(Delete(path, version))
            continue
        brokers = tuple(broker for broker in entry.brokers if broker in ctx.ottla_brokers)
        if len(brokers) < len(entry.brokers):
            entry = entry._replace(brokers=brokers)
            changes.append(SetData(path, EndedTopicZnode.encode_entry(entry), version))
        if entry.kept is not None:
            ctx.trash[topic_id] = entry
        else:
            waiting[topic_id] = bool(brokers)
    yield from write(changes)
    ctx.ended.update(
        {topic_id: waiting[topic_id] for topic_id in sorted(waiting, key=lambda i: stored[i].age)}
    )
    yield from _prune(ctx)


def revive(ctx: ControllerContext, topics: Iterable[str]) -> Steps[None]:
    """A znode of a deleted topic was written again, with its id: the topic has not ended."""
    known = ctx.ended.keys() | ctx.trash.keys()
    back = [ctx.topic_ids[t] for t in topics if ctx.topic_ids.get(t) in known]
    yield from write([Delete(EndedTopicZnode.path(topic_id)) for topic_id in back])
    for topic_id in back:
        ctx.ended.pop(topic_id, None)
        ctx.trash.pop(topic_id, None)


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
