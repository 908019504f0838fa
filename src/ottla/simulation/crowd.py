"""Many clients of each broker, with one small Produce request under way each: all have their turn.

What must hold while nothing disturbs the brokers or the way to them:
- whoever comes has its first answer soon, and every other answer;
- those who are there at the same time have about as many answers as each other.
And always: an answer names a place that no other one names, and in the end the client's record is
there. (Requests that are read in one round are appended together and answered together.)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ottla.client.admin.client import Admin
from ottla.client.admin.types import NewTopic, raise_first_error
from ottla.errors import ErrorCode
from ottla.simulation.cluster import BROKER_PORT
from ottla.simulation.data import committed_batches
from ottla.simulation.stage import EXPECTED
from ottla.simulation.workload import Topic
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire import records
from ottla.wire.framing import FrameReader, decode_response_header, encode_request
from ottla.wire.records import Record, build_batch

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.scenario import CrowdPlan
    from ottla.simulation.workload import Expectations

_HOST = "crowd"
_TOPIC = "crowd"
_TIMEOUT_MS = 12_000.0
_VERSION = 9
_MAX_ANSWER_BYTES = 64 * 1024
# Before the next try, where nobody listens or the connection ended.
_AGAIN_S = (0.02, 0.2)
# After trouble has ended: brokers start, elect and catch up with what has waited.
_RECOVERY_S = 1.0
# The most that one client has of another's answers; fewer than _FEW say nothing.
_FAVOUR = 2.0
_FEW = 8


class Crowd:
    """Client n talks to broker n % brokers, which leads (and alone has) a partition of that number.
    All of them are one process, whose work takes no time."""

    def __init__(self, cluster: SimCluster, plan: CrowdPlan, seed: str) -> None:
        self.plan = plan
        self.cluster = cluster
        self.random = random.Random(f"{seed}/crowd")
        self.is_over = False
        self.clients: list[CrowdClient] = []
        self._calm_since = 0.0
        # The window's beginning, and how many answers each client had then.
        self._window_since = 0.0
        self._answers_then: list[int] | None = None
        self._is_measured = not plan.clients
        # Of each broker: offset -> whose record is there.
        self._places: dict[int, dict[int, str]] = {}

    @property
    def hosts(self) -> list[str]:
        return [_HOST] if self.plan.clients else []

    async def start(self, expected: Expectations) -> None:
        if not self.plan.clients:
            return
        process, runtime = self.cluster.begin(_HOST)
        await self.cluster.run_on(process, self._create_topic(runtime))
        expected.topics[_TOPIC] = topic = Topic()
        topic.begin(len(self.cluster.broker_ids), {})
        brokers = len(self.cluster.broker_ids)
        for number in range(self.plan.clients):
            client = CrowdClient(self, number, number % brokers, runtime)
            self.clients.append(client)
            self.cluster.run_on(process, client.run())

    async def _create_topic(self, runtime: Runtime) -> None:
        places = {broker_id: [broker_id] for broker_id in self.cluster.broker_ids}
        async with Admin.connect(runtime, self.cluster.bootstrap, timeout_ms=_TIMEOUT_MS) as admin:
            made = await admin.create_topics([NewTopic(_TOPIC, assignments=places)])
            raise_first_error(made)

    def end(self) -> None:
        """Nothing fails any more: once they have all come back and had a calm window, they go."""
        self._is_measured = not self.clients
        self._answers_then = None

    @property
    def is_done(self) -> bool:
        self.is_over = self.is_over or self._is_measured
        return self.is_over

    def answered(self, client: CrowdClient, frame: memoryview) -> None:
        history, answer = self.cluster.history, _decode(frame)
        code, offset = ErrorCode(answer.error_code), answer.base_offset
        if code is not ErrorCode.NONE:
            if code not in EXPECTED:
                history.violated(f"{client.name} was told {code.name}")
            return
        places = self._places.setdefault(client.broker_id, {})
        before = places.setdefault(offset, client.name)
        if before != client.name or offset <= client.last_offset:
            history.violated(
                f"{client.name} was told offset {offset} of broker-{client.broker_id} after "
                f"{client.last_offset}; {before} was given that"
            )
        client.last_offset = offset

    def problems(self) -> Iterator[str]:
        """Once the crowd has gone: partitions that are not back. In those that are, every record is
        where the answer said, now or never."""
        for broker_id in self.cluster.broker_ids if self._places else ():
            node = self.cluster.nodes.get(broker_id)
            tp = TopicPartition(_TOPIC, broker_id)
            partition = None if node is None else node.parts.replica_manager.partitions.get(tp)
            if partition is None or partition.log is None:
                yield f"{tp} is not at broker-{broker_id}"
                continue
            missing = self._places.pop(broker_id, {})
            for _, data in committed_batches(partition.log, 0):
                for _, batch in records.iter_batches(data):
                    for record in records.iter_records(batch):
                        if missing.get(record.offset, "").encode() == record.value:
                            del missing[record.offset]
            if missing:
                [(offset, name), *_] = missing.items()
                self.cluster.history.violated(
                    f"{len(missing)} records of the crowd are not where they should be, first that "
                    f"of {name} at {tp} offset {offset}"
                )

    # what a look from outside shows

    def look_at(self) -> None:
        if self.is_over or not self.clients:
            return
        now = self.cluster.loop.time()
        if not self._is_calm():
            self._calm_since = now + _RECOVERY_S
            self._answers_then = None
        for client in self.clients:
            self._look_for_late(client, now)
        self._look_at_window(now)

    def _is_calm(self) -> bool:
        cluster = self.cluster
        if cluster.engine is None or len(cluster.nodes) < len(cluster.broker_ids):
            return False
        hosts = [f"broker-{broker_id}" for broker_id in cluster.broker_ids]
        for name in hosts:
            process = cluster.host(name).process
            if process is None or process.paused:
                return False
            for one, other in ((name, _HOST), (_HOST, name)):
                link = cluster.network.links.between(one, other)
                if link.cut or link.slowness > 1:
                    return False
        return True

    def _look_for_late(self, client: CrowdClient, now: float) -> None:
        if client.waits_since is None:
            return
        plan = self.plan
        waited_ms = 1000 * (now - max(client.waits_since, self._calm_since))
        limit_ms = plan.answer_ms if client.answers_here else plan.first_answer_ms
        if waited_ms > limit_ms:
            what = "an answer" if client.answers_here else "its first answer"
            self.cluster.history.violated(
                f"{client.name} has waited {waited_ms:.0f} ms for {what} of "
                f"broker-{client.broker_id}, at most {limit_ms:.0f} are allowed"
            )

    def _look_at_window(self, now: float) -> None:
        if self._answers_then is None:
            # Everybody is there, and nothing is wrong.
            if now >= self._calm_since and all(client.answers_here for client in self.clients):
                self._window_since = now
                self._answers_then = [client.answers for client in self.clients]
        elif any(client.since > self._window_since for client in self.clients):
            self._answers_then = None  # somebody had to come back
        elif now - self._window_since >= self.plan.window_ms / 1000:
            self._judge(self._answers_then)
            self._answers_then = None

    def _judge(self, answers_then: list[int]) -> None:
        self._is_measured = True
        for broker_id in self.cluster.broker_ids:
            gained = [
                (client.answers - then, client.name)
                for client, then in zip(self.clients, answers_then, strict=True)
                if client.broker_id == broker_id
            ]
            (least, last), (most, first) = min(gained), max(gained)
            self.cluster.trace.add("crowd", f"broker-{broker_id} {least} to {most} answers each")
            if most >= _FEW and most > _FAVOUR * least:
                self.cluster.history.violated(
                    f"broker-{broker_id} gave {most} answers to {first} and {least} to {last} "
                    f"in {self.plan.window_ms:.0f} ms"
                )


class CrowdClient(asyncio.Protocol):
    """Asks again as soon as it is answered; comes again where its connection ends."""

    def __init__(self, crowd: Crowd, number: int, broker_id: int, runtime: Runtime) -> None:
        self.name = f"crowd-{number}"
        self.broker_id = broker_id
        # On all connections, and on this one.
        self.answers = self.answers_here = 0
        self.last_offset = -1
        # When it came for this connection.
        self.since = 0.0
        # Since when it has had something to wait for.
        self.waits_since: float | None = None
        self._crowd = crowd
        self._runtime = runtime
        self._loop = crowd.cluster.loop
        self._request = _produce(broker_id, self.name, runtime.clock.now_ms())
        self._frames = FrameReader(_MAX_ANSWER_BYTES)
        self._transport: asyncio.Transport | None = None
        self._ended = asyncio.Event()

    async def run(self) -> None:
        random_of_all, plan = self._crowd.random, self._crowd.plan
        await asyncio.sleep(random_of_all.uniform(*plan.arrive_ms) / 1000)
        while not self._crowd.is_over:
            self.since = self.waits_since = self._loop.time()
            self.answers_here = 0
            self._frames = FrameReader(_MAX_ANSWER_BYTES)
            self._ended.clear()
            try:
                host = f"broker-{self.broker_id}"
                await self._runtime.network.connect(lambda: self, host, BROKER_PORT)
                await self._ended.wait()
            except OSError:
                self.waits_since = None
            await asyncio.sleep(random_of_all.uniform(*_AGAIN_S))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = self.waits_since = None
        self._ended.set()

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            self._take(frame)

    def _take(self, frame: memoryview) -> None:
        now, crowd = self._loop.time(), self._crowd
        if not self.answers_here:
            text = f"{self.name} first answer after {now - self.since:.6f}"
            crowd.cluster.trace.add("crowd", text)
        self.answers += 1
        self.answers_here += 1
        crowd.answered(self, frame)
        if self._transport is None:
            return
        if crowd.is_over:
            self._transport.close()
            return
        self.waits_since = now
        self._transport.write(self._request)


def _produce(partition: int, client_id: str, now_ms: int) -> bytes:
    """One small batch, acknowledged by the leader."""
    data = build_batch([Record(None, client_id.encode(), now_ms)])
    request_class = m.ProduceRequest
    request = request_class(
        acks=1,
        timeout_ms=int(_TIMEOUT_MS),
        topic_data=[
            request_class.TopicProduceData(
                name=_TOPIC,
                partition_data=[
                    request_class.PartitionProduceData(index=partition, records=memoryview(data))
                ],
            )
        ],
    )
    return b"".join(encode_request(request, _VERSION, 7, client_id))


def _decode(frame: memoryview) -> Any:
    _, position = decode_response_header(frame, m.ProduceResponse.API_KEY, _VERSION)
    answer, _ = m.ProduceResponse.decode(frame, _VERSION, position)
    return answer.responses[0].partition_responses[0]
