"""What a cluster says about its topics, in a form in which two clusters can be compared.

Topic ids, timestamps and randomly chosen replicas differ from cluster to cluster; everything else
of the znodes and of Metadata is kept byte for byte.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable, Collection
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.topics.assignment import BrokerMetadata, assign_replicas
from ottla.types import ZERO_TOPIC_ID
from ottla.wire.codec import Struct

TOPIC_ID = re.compile(rb'"topic_id":"[\w-]{22}"')
QUIET_TIMEOUT_S = 20.0
Tree = dict[str, Any]


def plain(value: Any) -> Any:
    """A response as dicts and lists; ids become present or absent, throttle times go."""
    if isinstance(value, Struct):
        fields = {name: getattr(value, name) for name in value.FIELDS}
        return {name: plain_field(name, value) for name, value in fields.items()}
    if isinstance(value, list):
        return sorted((plain(item) for item in value), key=_by_name)
    return value


def plain_field(name: str, value: Any) -> Any:
    if name == "throttle_time_ms":
        return "*"
    if name == "topic_id":
        return "an id" if value != ZERO_TOPIC_ID else "no id"
    return plain(value)


def _by_name(item: Any) -> str:
    """Kafka answers out of hash maps: the order of topics says nothing."""
    if isinstance(item, dict):
        for key in ("name", "topic", "resource_name", "partition_index", "partition_id"):
            if key in item:
                return f"{item[key]!s:>12}"
    return ""


def topic_nodes(zookeeper: KazooClient, names: Collection[str]) -> Tree:
    """Path to (bytes, version) of everything below the topics' nodes and their configs."""
    found: Tree = {}
    # Read first: while it is there, the nodes below the topic are on their way out.
    for name in _children(zookeeper, "/admin/delete_topics"):
        if name in names:
            found[f"/admin/delete_topics/{name}"] = "pending"
    for name in sorted(names):
        for root in (f"/brokers/topics/{name}", f"/config/topics/{name}"):
            _collect(zookeeper, root, found)
    return found


def _collect(zookeeper: KazooClient, path: str, found: Tree) -> None:
    try:
        data, stat = zookeeper.get(path)
    except NoNodeError:
        return
    text = TOPIC_ID.sub(b'"topic_id":"*"', data or b"").decode()
    # Who controls, and for the how many-th time, is no property of the topic.
    text = re.sub(r'"controller_epoch":\d+', '"controller_epoch":*', text)
    if path.startswith("/config/"):
        # Out of a java.util.Properties, so in the order of a hash table.
        node = json.loads(text)
        text = json.dumps(node | {"config": dict(sorted(node["config"].items()))})
    found[path] = (text, stat.version, stat.ephemeralOwner)
    for child in sorted(_children(zookeeper, path)):
        _collect(zookeeper, f"{path}/{child}", found)


def _children(zookeeper: KazooClient, path: str) -> list[str]:
    try:
        children: list[str] = zookeeper.get_children(path)
    except NoNodeError:
        return []
    return children


def config_changes(zookeeper: KazooClient, names: Collection[str]) -> list[str]:
    """The notes of config changes of these topics, in their order."""
    wanted = {f"topics/{name}" for name in names}
    notes = []
    for child in sorted(_children(zookeeper, "/config/changes")):
        text = zookeeper.get(f"/config/changes/{child}")[0].decode()
        if json.loads(text).get("entity_path") in wanted:
            notes.append(text)
    return notes


def random_assignments(partitions: int, factor: int, brokers: int = 3) -> list[dict[str, Any]]:
    """Every assignment that AdminUtils may draw on these brokers, as a znode has it.

    A 2.8.2 broker takes the alive brokers out of a hash map, so their order is not that of the ids.
    """
    source: Any = None
    return [
        {
            str(partition): replicas
            for partition, replicas in assign_replicas(
                [BrokerMetadata(broker) for broker in order],
                *(partitions, factor),
                random=source,
                start_index=start,
                shift=shift,
            ).items()
        }
        for order in itertools.permutations(range(brokers))
        for start in range(brokers)
        for shift in range(brokers)
    ]


def hide_random(tree: Tree, name: str, partitions: int, factor: int) -> Tree:
    """The tree with a randomly placed topic's replicas checked and then hidden."""
    path = f"/brokers/topics/{name}"
    if path not in tree:
        return tree
    node = json.loads(tree[path][0])
    assignment = node["partitions"]
    assert assignment in random_assignments(partitions, factor), (name, assignment)
    hidden = dict(tree)
    node["partitions"] = "random"
    hidden[path] = (json.dumps(node), *tree[path][1:])
    for partition, replicas in assignment.items():
        below = f"{path}/partitions/{partition}/state"
        if below not in tree:
            continue
        state = json.loads(tree[below][0].replace("*", "0"))
        assert (state["leader"], state["isr"]) == (replicas[0], replicas), (name, partition, state)
        state["leader"] = state["isr"] = "random"
        hidden[below] = (json.dumps(state), *tree[below][1:])
    return hidden


def is_quiet(tree: Tree) -> bool:
    """No deletion and no move runs, and every partition of every topic has a state."""
    for path, entry in tree.items():
        if entry == "pending":
            return False
        name = path.removeprefix("/brokers/topics/")
        if name == path or "/" in name:
            continue
        node = json.loads(entry[0])
        if node.get("adding_replicas") or node.get("removing_replicas"):
            return False
        states = [f"{path}/partitions/{number}/state" for number in node["partitions"]]
        if any(state not in tree for state in states):
            return False
    return True


def until_quiet(read: Callable[[], Tree]) -> Tree:
    deadline = time.monotonic() + QUIET_TIMEOUT_S
    while True:
        tree = read()
        if is_quiet(tree) or time.monotonic() > deadline:
            return tree
        time.sleep(0.05)
