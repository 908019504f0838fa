"""What tests that kill broker processes share: who is in office, who leads, who claimed to."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from ottla.testing import ProcessCluster

WAIT_S = 120.0
# One record holds all partitions of one order, a line for each: only the first has a time.
LEADS = re.compile(r".*INFO .*\] Leader (?P<tp>\S+) starts at leader epoch (?P<e>\d+) ")


@contextmanager
def metadata_store(cluster: ProcessCluster) -> Iterator[KazooClient]:
    store = KazooClient(hosts=cluster.zookeeper, timeout=20)
    store.start(15)
    try:
        yield store
    finally:
        store.stop()
        store.close()


def controller_node(store: KazooClient) -> tuple[int, int] | None:
    """The controller's id and the node's czxid."""
    try:
        data, stat = store.get("/controller")
    except NoNodeError:
        return None
    return json.loads(data)["brokerid"], stat.czxid


def partition_state(store: KazooClient, topic: str, partition: int) -> dict[str, Any]:
    path = f"/brokers/topics/{topic}/partitions/{partition}/state"
    state: dict[str, Any] = json.loads(store.get(path)[0])
    return state


def await_registered(store: KazooClient, brokers: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while len(store.get_children("/brokers/ids")) < brokers:
        assert time.monotonic() < deadline, f"only {store.get_children('/brokers/ids')} are there"
        time.sleep(0.05)


def await_in_sync(store: KazooClient, topic: str, partitions: int, brokers: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        states = [partition_state(store, topic, partition) for partition in range(partitions)]
        if all(len(state["isr"]) == brokers and state["leader"] >= 0 for state in states):
            return
        assert time.monotonic() < deadline, f"not all in sync again: {states}"
        time.sleep(0.1)


def leaders_by_epoch(cluster: ProcessCluster) -> dict[tuple[str, int], set[int]]:
    """(partition, epoch) -> the brokers that say that they led it."""
    claims: dict[tuple[str, int], set[int]] = defaultdict(set)
    logs: Path = cluster.options.data / "logs"
    # Brokers that were started again write to a file of their own.
    for path in [*logs.glob("broker-*-state-change.log*"), *logs.glob("broker-*.stderr")]:
        broker_id = int(path.name.removesuffix(".stderr").split("-")[1])
        for line in path.read_text().splitlines():
            found = LEADS.match(line)
            if found is not None:
                claims[found["tp"], int(found["e"])].add(broker_id)
    return claims


def led_twice(claims: dict[tuple[str, int], set[int]]) -> dict[tuple[str, int], set[int]]:
    """The epochs of partitions in which more than one broker led."""
    return {key: brokers for key, brokers in claims.items() if len(brokers) > 1}
