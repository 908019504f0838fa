"""Many clients of one broker in the simulated network: each has its turn, the hasty ones too."""

from __future__ import annotations

import asyncio
import random
import struct
from types import SimpleNamespace
from typing import Any

from ottla.bounds.turns import Turns
from ottla.broker.network.server import BrokerServer
from ottla.config.broker import BrokerConfig
from ottla.runtime import Runtime, SystemDisk
from ottla.simulation.cluster import SimClock
from ottla.simulation.loop import Process, SimulationLoop, run
from ottla.simulation.network import HostNetwork, SimNetwork
from ottla.simulation.trace import Trace
from ottla.types import Endpoint

CLIENTS = 60
# Requests that a hasty client has under way, each in a packet of its own.
HASTE = 8
API_VERSIONS = struct.Struct(">ihhih")


class Client(asyncio.Protocol):
    """Sends the next request as soon as one is answered."""

    def __init__(self, under_way: int) -> None:
        self.answers = 0
        self._under_way = under_way
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        for _ in range(self._under_way):
            self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            end = 4 + int.from_bytes(self._received[:4], "big")
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            self.answers += 1
            self._send()

    def _send(self) -> None:
        self._transport.write(API_VERSIONS.pack(10, 18, 0, 7, -1))


def test_each_of_many_clients_has_its_turn() -> None:
    loop = SimulationLoop("seed")
    network = SimNetwork(loop, "seed", Trace(loop.time, keep=False))
    broker = Process("broker")
    ports = HostNetwork(network, "broker", broker)
    runtime = Runtime(SimClock(loop), random.Random(7), ports, SystemDisk())
    clients: list[Client] = []

    async def story() -> None:
        config = BrokerConfig.from_properties(
            {"broker.id": "0", "zookeeper.connect": "store:2181", "log.dirs": "/unused"}
        )
        server = BrokerServer(runtime, config, Endpoint("PLAINTEXT", "broker", 9092))
        await server.open()
        roles = SimpleNamespace(peers=None, orders=None)
        services: Any = SimpleNamespace(
            authorizer=None,
            client_quotas=None,
            request_metrics=None,
            listener_roles=roles,
            turns=Turns(),
        )
        server.start_processing(services)
        for number in range(CLIENTS):
            client = Client(HASTE if number % 10 == 0 else 1)
            clients.append(client)
            host = HostNetwork(network, f"client-{number}", Process(f"client-{number}"))
            await host.connect(lambda client=client: client, "broker", 9092)
        before = [client.answers for client in clients]
        await asyncio.sleep(0.2)
        gained = [client.answers - then for client, then in zip(clients, before, strict=True)]
        patient = [count for number, count in enumerate(gained) if number % 10]
        hasty = gained[::10]
        # The ways to the broker differ in length; a turn that is lost would stop a client for good.
        assert min(patient) > 5
        assert min(hasty) > 5
        await server.close()

    run(loop, story())
