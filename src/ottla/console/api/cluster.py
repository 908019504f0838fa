"""The page Cluster: is all well?"""

from __future__ import annotations

from collections import Counter

import msgspec

from ottla.console.web.live import Snapshots, Source
from ottla.console.web.routes import Call, Feed, Route


class Broker(msgspec.Struct):
    id: int
    host: str
    port: int
    rack: str | None
    leaders: int
    replicas: int


class Cluster(msgspec.Struct):
    cluster_id: str | None
    controller: int | None
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    brokers: list[Broker]


async def picture(call: Call) -> Cluster:
    """One Metadata of everything, as one broker sees it."""
    answer = await call.admin.cluster.metadata(None)
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    under_replicated = 0
    for topic in answer.topics:
        for partition in topic.partitions:
            leaders[partition.leader_id] += 1
            replicas.update(partition.replica_nodes)
            under_replicated += len(partition.isr_nodes) < len(partition.replica_nodes)
    return Cluster(
        answer.cluster_id,
        answer.controller_id if answer.controller_id >= 0 else None,
        len(answer.topics),
        leaders.total(),
        leaders[-1],
        under_replicated,
        [
            Broker(b.node_id, b.host, b.port, b.rack, leaders[b.node_id], replicas[b.node_id])
            for b in sorted(answer.brokers, key=lambda broker: broker.node_id)
        ],
    )


def _open(call: Call) -> Source:
    return Snapshots(lambda: picture(call))


ROUTES = [Route("GET", "/cluster", picture, "Brokers, controller, health", answer=Cluster)]
FEEDS = [Feed("cluster", "Brokers, controller, health", 2.0, _open, message=Cluster)]
