"""Seeded clients that make, change and end topics, and what must be true of their topics then.

Each client has topics of its own and does one thing at a time. An operation that was answered
leaves its topic as the answer says. One that was not (time-out, lost connection) may happen, may
not, or may happen later: from then on only completeness is asked of that topic, not existence.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.client.admin.client import Admin
from ottla.client.admin.types import ElectionType, NewPartitions, NewTopic
from ottla.client.cluster import Cluster
from ottla.client.produce import TopicProducer
from ottla.errors import ErrorCode, InvariantViolated, KafkaError
from ottla.metadata.store import Delete, NodeExistsError, NoNodeError, StoreError
from ottla.metadata.znodes import (
    ConfigZnode,
    DeleteTopicZnode,
    ReplicaAssignment,
    TopicAssignment,
    TopicZnode,
)
from ottla.types import TopicId, TopicPartition
from ottla.wire import messages as m
from ottla.wire.records import Record
from ottla.zk.client.store import ZooKeeperClient

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.scenario import WorkloadPlan

# Answers after which nothing has changed and nothing will.
_REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PARTITIONS,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
# The same for a rename: not NOT_CONTROLLER, which a controller that goes says of one it had begun.
_RENAME_REFUSALS = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
_TOPIC_RESOURCE = 2
_SET = 0
_MAX_PARTITIONS = 4
_REQUEST_TIMEOUT_MS = 8_000
_UPROOT_LOOKS = 20
_LOSE_ATTEMPTS = 5
_CANCEL_SHARE = 0.2
_ELECT_ONE_SHARE = 0.7


class Unanswered(Exception):
    """Nobody knows whether the operation happened."""


@dataclass(slots=True)
class Life:
    """A topic in the trash, as it was at its deletion."""

    partitions: int
    configs: dict[str, str]
    acknowledged: dict[int, int]


@dataclass(slots=True)
class Topic:
    """What a client knows of one of its topics; `partitions` None where it does not exist."""

    partitions: int | None = None
    configs: dict[str, str] = field(default_factory=dict)
    # How many records each partition has at least.
    acknowledged: dict[int, int] = field(default_factory=dict)
    # Earlier ones of that name in the trash, the last one last.
    kept: list[Life] = field(default_factory=list)
    # Partitions that were moved, and where to.
    moved: dict[int, tuple[int, ...]] = field(default_factory=dict)
    certain: bool = True

    def begin(self, partitions: int, configs: dict[str, str]) -> None:
        self.partitions, self.configs, self.moved = partitions, configs, {}
        self.acknowledged = {}

    def end(self, *, is_kept: bool = False) -> None:
        if is_kept and self.partitions is not None:
            self.kept.append(Life(self.partitions, self.configs, self.acknowledged))
        self.partitions, self.configs, self.moved, self.acknowledged = None, {}, {}, {}

    def come_back(self) -> None:
        life = self.kept.pop()
        self.begin(life.partitions, life.configs)
        self.acknowledged = life.acknowledged


class Expectations:
    """The topics of all clients."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        # Topics whose znodes were taken away, or may have been: their logs stay.
        self.lost: set[TopicId] = set()
        # Answers that no cluster may give.
        self.wrong: list[str] = []

    def compare(
        self, found: dict[str, TopicAssignment], configs: dict[str, dict[str, str]]
    ) -> Iterator[str]:
        """What in the store differs from what the clients were told."""
        yield from self.wrong
        for name, topic in self.topics.items():
            if not topic.certain:
                continue
            assigned = found[name].partitions if name in found else None
            count = None if assigned is None else len(assigned)
            if count != topic.partitions:
                yield f"{name} has {count} partitions, not {topic.partitions}"
            if topic.partitions is not None and configs.get(name) != topic.configs:
                yield f"{name} has the configs {configs.get(name)}, not {topic.configs}"
            for number, target in topic.moved.items():
                if assigned is not None and assigned[number].replicas != target:
                    yield f"{name}-{number} is on {assigned[number].replicas}, not {target}"
        for name in found:
            # Brokers make topics for groups themselves.
            if name not in self.topics and not name.startswith("__"):
                yield f"nobody made {name}"


class _OneTry(Cluster):
    """Asks once: a second try would hide whether the first one was carried out."""

    async def _retry(
        self,
        attempt: Callable[[float], Awaitable[Any]],
        timeout_ms: float,
        limit_ms: float,
        call: str,
    ) -> Any:
        try:
            return await attempt(timeout_ms)
        except OSError as error:
            raise Unanswered(repr(error)) from error


class Client:
    """One client on a host of its own."""

    def __init__(
        self,
        cluster: SimCluster,
        expected: Expectations,
        plan: WorkloadPlan,
        name: str,
        runtime: Runtime,
        seed: str,
    ) -> None:
        self._cluster = cluster
        self._expected = expected
        self._plan = plan
        self._name = name
        self._runtime = runtime
        self._random = random.Random(f"{seed}/workload/{name}")
        view = _OneTry(runtime, cluster.bootstrap, client_id=name)
        self._admin = Admin(view, timeout_ms=_REQUEST_TIMEOUT_MS)
        self._store: ZooKeeperClient | None = None
        # Topics that are deleted can be brought back.
        self._is_trash_used = "undelete" in plan.weights
        self._writes = Cluster(runtime, cluster.bootstrap, client_id=f"{name}-writes")

    async def run(self) -> None:
        for _ in range(self._plan.operations):
            pause_ms = self._random.uniform(*self._plan.pause_ms)
            await asyncio.sleep(pause_ms / 1000)
            await self._one()
        await self._admin.close()
        await self._writes.close()
        if self._store is not None:
            await self._store.close()

    async def _one(self) -> None:
        weights = self._plan.weights
        [kind] = self._random.choices(list(weights), list(weights.values()))
        operation: Callable[[str, Topic], Awaitable[str]] = getattr(self, f"_do_{kind}")
        name, topic = self._pick(kind)
        try:
            outcome = await operation(name, topic)
        except KafkaError as error:
            outcome = error.code.name
            if error.code not in _REFUSALS:
                topic.certain = False
        except (Unanswered, StoreError) as error:
            outcome = type(error).__name__
            topic.certain = False
        self._cluster.trace.add("client", f"{self._name} {kind} {name}: {outcome}")

    def _names(self) -> list[str]:
        """With those that own topics were renamed to."""
        names = [f"{self._name}-{number}" for number in range(self._plan.topics)]
        return [
            *names,
            *(f"{name}-anew" for name in names if f"{name}-anew" in self._expected.topics),
        ]

    def _pick(self, kind: str) -> tuple[str, Topic]:
        """An own topic for the operation; one that should succeed, if there is one."""
        names = self._names()
        wants_absent = kind in ("create", "plant", "undelete")
        for name in names:
            self._expected.topics.setdefault(name, Topic())
        fitting = [
            name
            for name in names
            if (self._expected.topics[name].partitions is None) == wants_absent
        ]
        name = self._random.choice(fitting or names)
        return name, self._expected.topics[name]

    # operations: each returns how it went, and changes what is known where it succeeded

    async def _do_create(self, name: str, topic: Topic) -> str:
        partitions = self._random.randint(1, _MAX_PARTITIONS)
        replicas = self._random.randint(1, len(self._cluster.broker_ids))
        configs = {"retention.ms": "60000"} if self._random.random() < 0.3 else {}
        wanted = NewTopic(name, partitions, replicas, configs=configs)
        result = (await self._admin.create_topics([wanted]))[name]
        if isinstance(result, KafkaError):
            raise result
        topic.begin(partitions, configs)
        return f"{partitions} x {replicas}"

    async def _do_expand(self, name: str, topic: Topic) -> str:
        total = (topic.partitions or 1) + self._random.randint(1, 2)
        result = (await self._admin.create_partitions({name: NewPartitions(total)}))[name]
        if result is not None:
            raise result
        topic.partitions = total
        return f"{total} partitions"

    async def _do_delete(self, name: str, topic: Topic) -> str:
        result = (await self._admin.delete_topics([name]))[name]
        if result is not None:
            raise result
        topic.end(is_kept=self._is_trash_used)
        return "deleted"

    async def _do_write(self, name: str, topic: Topic) -> str:
        """One record, acknowledged by all that are in sync; it may be there though it failed."""
        if topic.partitions is None or not topic.certain:
            return "nothing to write to"
        number = self._random.randrange(topic.partitions)
        producer = TopicProducer(
            self._writes, name, rng=self._random, timeout_ms=_REQUEST_TIMEOUT_MS
        )
        try:
            await producer.start()
            record = Record(None, b"r", self._runtime.clock.now_ms())
            await producer.send(record, number)
            await producer.flush()
        except KafkaError as error:
            return error.code.name
        topic.acknowledged[number] = topic.acknowledged.get(number, 0) + 1
        return f"{number}: {topic.acknowledged[number]} records"

    async def _do_undelete(self, name: str, topic: Topic) -> str:
        is_there = topic.certain and bool(topic.kept) and topic.partitions is None
        try:
            await self._admin.undelete_topic(name)
        except KafkaError as error:
            if is_there and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self._expected.wrong.append(f"{name} is not in the trash any more")
            raise
        if topic.certain and not topic.kept:
            self._expected.wrong.append(f"{name} came back, and was not in the trash")
        if topic.kept:
            topic.come_back()
        return "back"

    async def _do_purge(self, name: str, topic: Topic) -> str:
        await self._admin.purge_topic(name)
        if topic.kept:
            topic.kept.pop()
        return "purged"

    async def _do_recreate(self, name: str, topic: Topic) -> str:
        await self._do_delete(name, topic)
        return await self._do_create(name, topic)

    async def _do_alter(self, name: str, topic: Topic) -> str:
        value = str(self._random.randint(1, 100) * 60_000)
        request = m.IncrementalAlterConfigsRequest
        answer = await self._admin.cluster.send_to_any(
            request(
                resources=[
                    request.AlterConfigsResource(
                        resource_type=_TOPIC_RESOURCE,
                        resource_name=name,
                        configs=[
                            request.AlterableConfig(
                                name="retention.ms", config_operation=_SET, value=value
                            )
                        ],
                    )
                ]
            ),
            timeout_ms=_REQUEST_TIMEOUT_MS,
        )
        code = ErrorCode(answer.responses[0].error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code)
        topic.configs = topic.configs | {"retention.ms": value}
        return f"retention.ms={value}"

    async def _do_reassign(self, name: str, topic: Topic) -> str:
        """Moves some partitions, or takes back a move that may be under way."""
        ids = list(self._cluster.broker_ids)
        numbers = range(topic.partitions or 1)
        chosen = self._random.sample(numbers, self._random.randint(1, len(numbers)))
        cancel = self._random.random() < _CANCEL_SHARE
        targets = {
            TopicPartition(name, number): None
            if cancel
            else self._random.sample(ids, self._random.randint(1, min(3, len(ids))))
            for number in chosen
        }
        results = await self._admin.alter_reassignments(targets)
        for tp, target in targets.items():
            if results[tp] is not None:
                continue
            # A cancelled move may have been over already: either outcome is right.
            topic.moved.pop(tp.partition, None)
            if target is not None:
                topic.moved[tp.partition] = tuple(target)
        refused = next((error for error in results.values() if error is not None), None)
        if refused is not None:
            raise refused
        return ", ".join(f"{tp.partition}: {target}" for tp, target in targets.items())

    async def _do_rename(self, name: str, topic: Topic) -> str:
        """To another of this client's names, or to one that nobody had yet."""
        free = [
            other
            for other in self._names()
            if other != name and self._expected.topics[other].partitions is None
        ]
        fresh = f"{name}-anew"
        new_name = self._random.choice([*free, fresh])
        target = self._expected.topics.setdefault(new_name, Topic())
        try:
            renamed = await self._admin.rename_topic(name, new_name)
        except (KafkaError, Unanswered) as error:
            # A controller that says that it is none may have been one when it began.
            is_refusal = isinstance(error, KafkaError) and error.code in _RENAME_REFUSALS
            target.certain = target.certain and is_refusal
            topic.certain = topic.certain and is_refusal
            return repr(error)
        if renamed is None:
            raise InvariantViolated("the cluster does not know of renames")
        target.begin(topic.partitions or 0, topic.configs)
        target.moved, target.certain = dict(topic.moved), topic.certain and target.certain
        topic.end()
        return f"{new_name}"

    async def _do_elect(self, name: str, topic: Topic) -> str:
        """Preferred leaders, of one topic or of all; changes nothing that a client counts on."""
        numbers = range(topic.partitions or 1)
        of_one = self._random.random() < _ELECT_ONE_SHARE
        partitions = [TopicPartition(name, number) for number in numbers] if of_one else None
        try:
            results = await self._admin.elect_leaders(ElectionType.PREFERRED, partitions)
        except (KafkaError, Unanswered) as error:
            return repr(error)
        return f"{len(results)} results"

    async def _do_plant(self, name: str, topic: Topic) -> str:
        """A topic made by hand: just its znode, with unequal numbers of replicas."""
        ids = list(self._cluster.broker_ids)
        assignment = {
            number: ReplicaAssignment(
                tuple(self._random.sample(ids, self._random.randint(1, len(ids))))
            )
            for number in range(self._random.randint(1, _MAX_PARTITIONS))
        }
        store = await self._connected_store()
        try:
            await store.create(TopicZnode.path(name), TopicZnode.encode(assignment))
        except (NodeExistsError, NoNodeError) as refusal:
            return type(refusal).__name__
        topic.begin(len(assignment), {})
        return f"{len(assignment)} by hand"

    async def _do_uproot(self, name: str, topic: Topic) -> str:
        """A deletion asked for by hand, and a look whether it ended."""
        store = await self._connected_store()
        try:
            await store.create(DeleteTopicZnode.path(name))
        except (NodeExistsError, NoNodeError) as refusal:
            return type(refusal).__name__
        for _ in range(_UPROOT_LOOKS):
            await asyncio.sleep(0.5)
            if await store.exists(DeleteTopicZnode.path(name)) is None:
                if await store.exists(TopicZnode.path(name)) is not None:
                    # As in Kafka, a controller that has not heard of the topic takes the mark away.
                    return "ignored"
                topic.end(is_kept=self._is_trash_used)
                return "gone"
        raise Unanswered("the deletion goes on")

    async def _do_lose(self, name: str, topic: Topic) -> str:
        """All znodes of the topic vanish at once, and nobody asked for its end: what is left of it
        after a store was emptied."""
        store = await self._connected_store()
        for _ in range(_LOSE_ATTEMPTS):
            paths = await self._znodes(store, name)
            if not paths or await store.exists(DeleteTopicZnode.path(name)) is not None:
                return "not there, or on its way out"
            topic_id = TopicZnode.decode((await store.get(TopicZnode.path(name)))[0]).topic_id
            if topic_id is None:
                return "not there yet"
            self._expected.lost.add(topic_id)
            results = await store.multi([Delete(path) for path in paths])
            if not any(result.error for result in results):
                topic.end()
                return f"lost {len(paths)} nodes"
        return "too busy"

    async def _znodes(self, store: ZooKeeperClient, name: str) -> list[str]:
        """Children before their parents; empty where the topic is gone meanwhile."""
        levels = [[TopicZnode.path(name)]]
        try:
            while levels[-1]:
                listed = [(path, await store.children(path)) for path in levels[-1]]
                levels.append([f"{path}/{child}" for path, found in listed for child in found])
        except NoNodeError:
            return []
        config = ConfigZnode.path(ConfigZnode.TOPICS, name)
        found = [path for level in reversed(levels) for path in level]
        return found + ([config] if await store.exists(config) is not None else [])

    async def _connected_store(self) -> ZooKeeperClient:
        if self._store is None:
            self._store = await ZooKeeperClient.connect(
                self._runtime, self._cluster.zookeeper, session_timeout_ms=6_000
            )
        return self._store
