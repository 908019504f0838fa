"""A coordinator on a log in memory and a clock that only tests move."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ottla.config.broker import BrokerConfig
from ottla.coordinator.groups.coordinator import GroupCoordinator
from ottla.coordinator.groups.group import JoinResult, SyncResult
from ottla.coordinator.groups.rebalance import JoinRequest, SyncRequest
from ottla.errors import ErrorCode
from ottla.runtime import Runtime
from ottla.topics.names import OFFSETS_TOPIC
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import records

PROTOCOLS = (("range", b"range-data"), ("roundrobin", b"rr-data"))


class VirtualClock:
    def __init__(self) -> None:
        self.elapsed_ms = 0.0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + int(self.elapsed_ms)

    def monotonic_ms(self) -> float:
        return self.elapsed_ms


@dataclass(frozen=True)
class Appended:
    error: ErrorCode
    base_offset: int = -1


@dataclass
class MemoryLog:
    start_offset: int = 0
    batches: list[bytes] = field(default_factory=list)

    @property
    def end_offset(self) -> int:
        return records.read_header(self.batches[-1]).next_offset if self.batches else 0

    def append(self, batch: memoryview) -> int:
        base_offset = self.end_offset
        writable = bytearray(batch)
        records.patch(memoryview(writable), base_offset, 0)
        self.batches.append(bytes(writable))
        return base_offset

    def read(
        self, offset: int, max_bytes: int, end_offset: int, *, min_one_batch: bool
    ) -> memoryview:
        """Like the real log: whole first batch, the last one may be cut."""
        left = [batch for batch in self.batches if records.read_header(batch).last_offset >= offset]
        size = max(max_bytes, len(left[0])) if min_one_batch and left else max_bytes
        return memoryview(b"".join(left)[:size])

    def entries(self) -> list[tuple[bytes, bytes | None]]:
        return [
            (cast("bytes", record.key), record.value)
            for batch in self.batches
            for record in records.iter_records(batch)
        ]


class MemoryReplicas:
    """Stands for the replica manager and for its parts."""

    def __init__(self) -> None:
        self.appends = self.partitions = self.leadership = self
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.fail_with: ErrorCode | None = None
        self.largest_batch = 1 << 30
        # Cleared by a test that wants appends to wait for their replication.
        self.replicated = asyncio.Event()
        self.replicated.set()
        self.listeners: list[tuple[Callable[..., None], Callable[..., None]]] = []
        self.append_options: list[dict[str, Any]] = []

    async def append(
        self, batches: Mapping[TopicPartition, memoryview], **options: Any
    ) -> dict[TopicPartition, Appended]:
        self.append_options.append(options)
        results = {}
        for tp, batch in batches.items():
            if self.fail_with is not None:
                results[tp] = Appended(self.fail_with)
            elif len(batch) > self.largest_batch:
                results[tp] = Appended(ErrorCode.MESSAGE_TOO_LARGE)
            else:
                results[tp] = Appended(ErrorCode.NONE, self.log(tp).append(batch))
        await self.replicated.wait()
        return results

    def log(self, tp: TopicPartition) -> MemoryLog:
        return self.logs.setdefault(tp, MemoryLog())

    def add(self, on_leader: Callable[..., None], on_resign: Callable[..., None]) -> None:
        self.listeners.append((on_leader, on_resign))


class OnePartitionMetadata:
    """Knows `__consumer_offsets` with one partition, and whatever topics a test adds."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, object]] = {OFFSETS_TOPIC: {0: object()}}
        self.renamed: set[str] = set()
        self.listeners: list[Callable[[frozenset[str]], None]] = []
        self.ids: dict[str, TopicId] = {}

    def topic_partitions(self, topic: str) -> dict[int, object]:
        return self.topics.get(topic, {})

    def contains_topic(self, name: str) -> bool:
        return name in self.topics

    def was_renamed(self, name: str) -> bool:
        return name in self.renamed

    def topic_id(self, name: str) -> TopicId:
        return self.ids.get(name, ZERO_TOPIC_ID)

    def topic_name(self, topic_id: TopicId) -> str | None:
        return next((n for n, i in self.ids.items() if i == topic_id and n in self.topics), None)

    def ended_id(self, name: str) -> TopicId:
        return self.topic_id(name)

    def add_listener(self, listener: Callable[[frozenset[str]], None]) -> None:
        self.listeners.append(listener)

    def delete(self, topic: str) -> None:
        del self.topics[topic]
        for listener in self.listeners:
            listener(frozenset({topic}))


OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


async def turns(count: int = 20) -> None:
    """Lets everything that can run without waiting for time run."""
    for _ in range(count):
        await asyncio.sleep(0)


class Rig:
    """One coordinator that leads the only partition of `__consumer_offsets`."""

    def __init__(self, **settings: object) -> None:
        config = {
            "zookeeper.connect": "localhost:2181",
            "group.initial.rebalance.delay.ms": "0",
            **{key.replace("_", "."): str(value) for key, value in settings.items()},
        }
        self.config = BrokerConfig.from_properties(config)
        self.clock = VirtualClock()
        self.replicas = MemoryReplicas()
        self.metadata = OnePartitionMetadata()
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> GroupCoordinator:
        unused = cast("Any", None)  # a coordinator opens no sockets and no files
        self.runtime = Runtime(self.clock, random.Random(7), unused, unused)
        return GroupCoordinator(self.runtime, self.config, self.replicas, self.metadata)

    async def start(self, leader_epoch: int = 0) -> Rig:
        await self.coordinator.start()
        on_leader, _ = self.replicas.listeners[-1]
        on_leader(OFFSETS, leader_epoch)
        await turns()
        return self

    def resign(self, leader_epoch: int | None) -> None:
        self.replicas.listeners[-1][1](OFFSETS, leader_epoch)

    async def fail_over(self) -> GroupCoordinator:
        """Another coordinator takes over the same log."""
        await self.coordinator.shutdown()
        self.coordinator = self.new_coordinator()
        await self.start(leader_epoch=1)
        return self.coordinator

    async def advance(self, ms: float) -> None:
        self.clock.elapsed_ms += ms
        self.coordinator.registry.deadlines.run_due()
        await turns()

    @property
    def log(self) -> MemoryLog:
        return self.replicas.log(OFFSETS)

    # --- members ---

    def join(self, group: str = "g", **changes: object) -> asyncio.Task[JoinResult]:
        return asyncio.create_task(self.coordinator.join(group, join_request(**changes)))

    async def join_now(self, group: str = "g", **changes: object) -> JoinResult:
        return await asyncio.wait_for(self.join(group, **changes), 1)

    async def sync_now(
        self, joined: JoinResult, assignments: dict[str, bytes] | None = None, group: str = "g"
    ) -> SyncResult:
        return await asyncio.wait_for(self.sync(joined, assignments, group), 1)

    def sync(
        self, joined: JoinResult, assignments: dict[str, bytes] | None = None, group: str = "g"
    ) -> asyncio.Task[SyncResult]:
        request = SyncRequest(
            joined.member_id,
            None,
            joined.generation_id,
            joined.protocol_type,
            joined.protocol_name,
            assignments or {},
        )
        return asyncio.create_task(self.coordinator.sync(group, request))

    async def stable_pair(self) -> tuple[JoinResult, JoinResult]:
        """Two members with assignments a and b, in one stable generation; the first one leads."""
        first = await self.join_now()
        second_join = self.join()
        await turns()
        first = await self.join_now(member_id=first.member_id)
        second = await second_join
        leading = self.sync(first, {first.member_id: b"a", second.member_id: b"b"})
        following = self.sync(second)
        assert (await leading).assignment == b"a"
        assert (await following).assignment == b"b"
        return first, second


def join_request(**changes: Any) -> JoinRequest:
    given: dict[str, Any] = {
        "member_id": "",
        "instance_id": None,
        "new_member_id": "",
        "client_id": "client",
        "client_host": "/127.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": PROTOCOLS,
    }
    return JoinRequest(**{**given, **changes})
