"""What must hold once nothing fails any more: everybody knows the same, and nothing is left over.

`problems` lists what does not hold yet; a run has converged when the list is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.metadata.ended import EndedTopic, EndedTopicZnode
from ottla.metadata.renames import RenameZnode
from ottla.metadata.znodes import (
    BrokerIdsZnode,
    ConfigZnode,
    DeleteTopicsZnode,
    LeaderAndIsr,
    TopicAssignment,
    TopicPartitionStateZnode,
    TopicsZnode,
    TopicZnode,
)
from ottla.storage.manager.folder_names import TRASH_FOLDER
from ottla.topics.configs import LogConfig
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition

if TYPE_CHECKING:
    from ottla.process.node import Node
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.workload import Expectations
    from ottla.storage.log.log import Log
    from ottla.zk.server.tree import Tree

DATA = Path("/data")


def problems(cluster: SimCluster, expected: Expectations) -> list[str]:
    engine = cluster.engine
    if engine is None:
        return ["the store is down"]
    tree = engine.tree
    found = list(_cluster(cluster, tree))
    topics = {
        name: TopicZnode.decode(tree.nodes[TopicZnode.path(name)].data)
        for name in _children(tree, TopicsZnode.path())
    }
    states = {
        tp: _state(tree, tp)
        for name, topic in topics.items()
        for tp in (TopicPartition(name, number) for number in topic.partitions)
    }
    for tp, state in states.items():
        found += _partition(tp, topics[tp.topic], state)
    found += _leftovers(tree, topics)
    for node in cluster.nodes.values():
        found += _cache(cluster, node, topics, states, expected.lost)
        found += _replicas(node, topics, states, expected.lost)
        found += _folders(cluster, node, topics, expected.lost)
        found += _configs(node, tree, topics)
    found += _trash(cluster, tree, topics, expected)
    found += _written(cluster, states, expected)
    found += expected.compare(
        topics,
        {name: _config(tree, name) for name in topics},
    )
    return found


def _cluster(cluster: SimCluster, tree: Tree) -> Iterator[str]:
    ids = [str(i) for i in cluster.broker_ids]
    registered = sorted(_children(tree, BrokerIdsZnode.path()))
    if registered != ids:
        yield f"registered brokers: {registered}"
    running = sorted(cluster.nodes)
    if running != list(cluster.broker_ids):
        yield f"running brokers: {running}"
    active = [i for i, node in cluster.nodes.items() if node.controller.is_active]
    if active != [cluster.controller_id()]:
        yield f"/controller is {cluster.controller_id()}, active: {active}"


def _partition(tp: TopicPartition, topic: TopicAssignment, state: LeaderAndIsr | None) -> list[str]:
    replicas = topic.partitions[tp.partition].replicas
    if state is None:
        return [f"{tp} has no state"]
    if topic.partitions[tp.partition].is_being_reassigned:
        return [f"{tp} is still being moved: {topic.partitions[tp.partition]}"]
    if state.leader < 0 or sorted(state.isr) != sorted(replicas):
        return [f"{tp}: leader {state.leader}, ISR {list(state.isr)} of {list(replicas)}"]
    return []


def _leftovers(tree: Tree, topics: dict[str, TopicAssignment]) -> Iterator[str]:
    waiting = _children(tree, DeleteTopicsZnode.path())
    if waiting:
        yield f"still being deleted: {waiting}"
    for name in _children(tree, ConfigZnode.path(ConfigZnode.TOPICS)):
        if name not in topics:
            yield f"config of {name} is left"
    renames = _children(tree, RenameZnode.parent())
    if renames:
        yield f"still being renamed: {renames}"
    ids = [topic.topic_id for topic in topics.values() if topic.topic_id is not None]
    if len(set(ids)) < len(ids):
        yield f"two names have one topic id: {sorted(topics)}"
    for name, topic in topics.items():
        numbers = {int(number) for number in _children(tree, TopicZnode.path(name) + "/partitions")}
        if not numbers <= topic.partitions.keys():
            yield f"{name} has partition nodes {sorted(numbers)}"


def _cache(
    cluster: SimCluster,
    node: Node,
    topics: dict[str, TopicAssignment],
    states: dict[TopicPartition, LeaderAndIsr | None],
    lost: set[TopicId],
) -> Iterator[str]:
    cache, who = node.services.metadata_cache, f"broker {node.broker_id}"
    if cache.controller_id != cluster.controller_id():
        yield f"{who} takes {cache.controller_id} for the controller"
    known = [broker.id for broker in cache.alive_brokers()]
    if known != list(cluster.broker_ids):
        yield f"{who} knows the brokers {known}"
    # Of a topic that is lost nobody tells the brokers; the next controller's first word does.
    known_topics = [
        name for name in cache.topics() if name in topics or cache.topic_id(name) not in lost
    ]
    if sorted(known_topics) != sorted(topics):
        yield f"{who} knows the topics {sorted(known_topics)}, not {sorted(topics)}"
    for name, topic in topics.items():
        if cache.topic_id(name) != (topic.topic_id or ZERO_TOPIC_ID):
            yield f"{who} has another id of topic {name}"
        cached = cache.topic_partitions(name)
        if cached.keys() != topic.partitions.keys():
            yield f"{who} knows the partitions {sorted(cached)} of {name}"
    for tp, state in states.items():
        seen = cache.partition_state(tp)
        if seen is None or state is None:
            continue
        told = (seen.leader, seen.leader_epoch, sorted(seen.isr), list(seen.replicas))
        replicas = topics[tp.topic].partitions[tp.partition].replicas
        true = (state.leader, state.leader_epoch, sorted(state.isr), list(replicas))
        if told != true:
            yield f"{who} has {tp} as {told}, not {true}"
        if seen.offline_replicas:
            yield f"{who} takes replicas {seen.offline_replicas} of {tp} for offline"


def _replicas(
    node: Node,
    topics: dict[str, TopicAssignment],
    states: dict[TopicPartition, LeaderAndIsr | None],
    lost: set[TopicId],
) -> Iterator[str]:
    """Every assigned replica is there with the right role, and no other."""
    who = f"broker {node.broker_id}"
    hosted = {partition.tp: partition for partition in node.parts.replica_manager.partitions}
    for tp, state in states.items():
        assigned = node.broker_id in topics[tp.topic].partitions[tp.partition].replicas
        partition = hosted.pop(tp, None)
        if not assigned:
            if partition is not None and not _is_lost(partition.log, lost):
                yield f"{who} has {tp}, which is not its own"
            continue
        if partition is None or partition.log is None:
            yield f"{who} has no replica of {tp}"
            continue
        role = (partition.leader, partition.leader_epoch)
        if state is not None and role != (state.leader, state.leader_epoch):
            yield f"{who} follows (leader, epoch) {role} for {tp}"
        wanted_id = topics[tp.topic].topic_id
        if wanted_id is not None and partition.log.topic_id != wanted_id:
            yield f"{who} has {tp} with another topic id"
    left = [tp for tp, partition in hosted.items() if not _is_lost(partition.log, lost)]
    if left:
        yield f"{who} still has {sorted(left)}"


def _is_lost(log: Log | None, lost: set[TopicId]) -> bool:
    return log is not None and log.topic_id in lost


def _folders(
    cluster: SimCluster, node: Node, topics: dict[str, TopicAssignment], lost: set[TopicId]
) -> Iterator[str]:
    """A folder for each assigned replica, and no other but those of topics that got lost.

    Left aside: an empty log whose topic id a power cut took. Nothing tells whose it is: the next
    order for the name adopts it, or it goes when a controller next finds the name unused.
    """
    broker_id = node.broker_id
    wanted = sorted(
        f"{name}-{number}"
        for name, topic in topics.items()
        for number, assignment in topic.partitions.items()
        if broker_id in assignment.replicas
    )
    folders = cluster.broker_host(broker_id).disk.folder_names(DATA)
    spared = {
        str(log.tp)
        for log in node.parts.log_manager.logs()
        if _is_lost(log, lost) or (log.topic_id == ZERO_TOPIC_ID and not log.end_offset)
    }
    if lost:
        spared.update(path.name for path in node.parts.log_manager.strays.folders)
    spared.add(TRASH_FOLDER)
    folders = [name for name in folders if name in wanted or name not in spared]
    if folders != wanted:
        extra = [name for name in folders if name not in wanted]
        missing = [name for name in wanted if name not in folders]
        yield f"broker {broker_id}: folders too many {extra}, missing {missing}"


def _trash(
    cluster: SimCluster, tree: Tree, topics: dict[str, TopicAssignment], expected: Expectations
) -> Iterator[str]:
    """What brokers keep is in the trash, nothing is both there and in use, and clients find there
    what they deleted. (That its logs are whole shows when it is back: `_written`.)"""
    kept: dict[TopicId, EndedTopic] = {}
    for name in _children(tree, EndedTopicZnode.parent()):
        topic_id = EndedTopicZnode.topic_id(name)
        entry = EndedTopicZnode.decode(tree.nodes[f"{EndedTopicZnode.parent()}/{name}"].data)
        if topic_id is not None and entry is not None and entry.kept is not None:
            kept[topic_id] = entry
    for name, topic in topics.items():
        if topic.topic_id in kept:
            yield f"{name} is there and in the trash"
    for node in cluster.nodes.values():
        orphans = node.parts.log_manager.trash.topic_ids() - kept.keys()
        if orphans:
            yield f"broker {node.broker_id} keeps logs of {sorted(orphans)}, which nobody does"
    for name, known in expected.topics.items():
        count = sum(entry.topic == name for entry in kept.values())
        if known.certain and count != len(known.kept):
            yield f"{name} is {count} times in the trash, not {len(known.kept)} times"


def _written(
    cluster: SimCluster,
    states: dict[TopicPartition, LeaderAndIsr | None],
    expected: Expectations,
) -> Iterator[str]:
    """Every record that was acknowledged, also from before a deletion that was taken back."""
    for name, topic in expected.topics.items():
        if not topic.certain or topic.partitions is None:
            continue
        for number, count in topic.acknowledged.items():
            tp = TopicPartition(name, number)
            state = states.get(tp)
            node = None if state is None else cluster.nodes.get(state.leader)
            log = None if node is None else node.parts.log_manager.get(tp)
            if log is None or log.end_offset < count:
                end = None if log is None else log.end_offset
                yield f"{tp} ends at {end}, and {count} records were acknowledged"


def _configs(node: Node, tree: Tree, topics: dict[str, TopicAssignment]) -> Iterator[str]:
    """Replicas go by the configs in the store."""
    for partition in node.parts.replica_manager.partitions:
        name = partition.tp.topic
        if partition.log is not None and name in topics:
            wanted = LogConfig.resolve(node.config, _config(tree, name))
            if partition.log.settings != wanted:
                yield f"broker {node.broker_id} has other configs of {partition.tp}"


def _children(tree: Tree, path: str) -> list[str]:
    node = tree.nodes.get(path)
    return list(node.children or ()) if node is not None else []


def _state(tree: Tree, tp: TopicPartition) -> LeaderAndIsr | None:
    node = tree.nodes.get(TopicPartitionStateZnode.path(tp))
    return None if node is None else TopicPartitionStateZnode.decode(node.data, node.stat())


def _config(tree: Tree, topic: str) -> dict[str, str]:
    node = tree.nodes.get(ConfigZnode.path(ConfigZnode.TOPICS, topic))
    return {} if node is None else ConfigZnode.decode(node.data)
