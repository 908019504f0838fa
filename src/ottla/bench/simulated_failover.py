"""A controller that dies with more partitions than this machine would hold: in the simulator.

Virtual time shows what waits for answers and time-outs; everything that computes takes no time
there, so that the processor's time stands beside it, of all brokers and the store together.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from typing import NamedTuple

from ottla.client.admin.client import Admin
from ottla.client.admin.types import NewTopic, raise_first_error
from ottla.errors import OttlaError
from ottla.simulation.cluster import SimCluster
from ottla.simulation.history import History
from ottla.simulation.loop import SimulationLoop, run
from ottla.simulation.trace import Trace

BROKERS, REPLICAS = 3, 2
PARTITIONS_PER_TOPIC = 100
_TOPICS_PER_REQUEST = 10
_TIMEOUT_MS = 600_000
_LOOK_S = 0.01


class SimulatedFailover(NamedTuple):
    """From the end of the dead controller's session to a new topic with leaders."""

    virtual_s: float
    cpu_s: float


def simulated_failover(partitions: int) -> SimulatedFailover:
    loop = SimulationLoop("failover")
    found: list[SimulatedFailover] = []

    async def main() -> None:
        found.append(await _measure(loop, max(1, partitions // PARTITIONS_PER_TOPIC)))

    # The collector would walk over every partition again and again.
    gc.disable()
    logging.disable(logging.ERROR)  # brokers write lines to files; here they would go to the screen
    try:
        run(loop, main())
    finally:
        logging.disable(logging.NOTSET)
        gc.enable()
    return found[0]


async def _measure(loop: SimulationLoop, topics: int) -> SimulatedFailover:
    trace = Trace(loop.time, keep=False)
    cluster = SimCluster(
        loop,
        "failover",
        trace,
        History(trace, range(BROKERS)),
        brokers=BROKERS,
        config={"auto.leader.rebalance.enable": "false"},
        snapshot_after_bytes=1 << 40,
    )
    await cluster.start_store()
    for broker_id in cluster.broker_ids:
        cluster.start_broker(broker_id)
    while len(cluster.nodes) < BROKERS:  # noqa: ASYNC110 - a simulated node tells nobody
        await asyncio.sleep(_LOOK_S)
    process, runtime = cluster.begin("client")
    admin = Admin.connect(runtime, cluster.bootstrap, timeout_ms=_TIMEOUT_MS)

    async def create(names: list[str], partitions: int) -> None:
        async with admin as connected:
            new = [NewTopic(name, partitions, REPLICAS) for name in names]
            for start in range(0, len(new), _TOPICS_PER_REQUEST):
                some = new[start : start + _TOPICS_PER_REQUEST]
                raise_first_error(await connected.create_topics(some))

    await cluster.run_on(
        process, create([f"held-{n:05d}" for n in range(topics)], PARTITIONS_PER_TOPIC)
    )
    return await _fail_over(cluster)


async def _fail_over(cluster: SimCluster) -> SimulatedFailover:
    dead = cluster.controller_id()
    if dead is None:
        raise OttlaError("the simulated cluster has no controller")
    cluster.expire_session(dead)
    cluster.kill(f"broker-{dead}")
    began_s, began_cpu_s = cluster.loop.time(), time.process_time()
    process, runtime = cluster.begin("second-client")

    async def create_after() -> None:
        async with Admin.connect(runtime, cluster.bootstrap, timeout_ms=_TIMEOUT_MS) as admin:
            raise_first_error(await admin.create_topics([NewTopic("after", 10, REPLICAS)]))

    await cluster.run_on(process, create_after())
    taken = SimulatedFailover(cluster.loop.time() - began_s, time.process_time() - began_cpu_s)
    cluster.end()
    return taken
