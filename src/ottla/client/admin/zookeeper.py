"""Administration of topics by writing znodes, without a broker: what kafka-topics does with
`--zookeeper` (kafka.zk.AdminZkClient, kafka.admin.TopicCommand.ZookeeperTopicService).

The controller sees the znodes and does the rest, at once or when there is one again. Topics made
this way have no id until a controller gives them one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.metadata import znodes
from ottla.metadata.entity_configs import (
    change_entity,
    desanitize,
    read_entity,
    user_names,
    user_path,
)
from ottla.metadata.store import ConnectionLossError, CreateMode, NodeExistsError, NoNodeError, Stat
from ottla.topics import validation
from ottla.topics.assignment import (
    AdminOperationError,
    BrokerMetadata,
    RackAwareMode,
    assign_replicas,
    select_brokers,
)
from ottla.topics.configs import validate_topic_configs
from ottla.topics.names import TopicNames, is_internal
from ottla.topics.names import validate as validate_name
from ottla.types import TopicId, TopicPartition

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime

CONNECT_TIMEOUT_MS = 5_000
SESSION_TIMEOUT_MS = 30_000
# Reads in flight at a time: enough to hide the round trip, bounded.
_READS_AT_ONCE = 200


class StoreUnreachable(OttlaError):
    """No ZooKeeper answered in time."""


@dataclass(frozen=True, slots=True)
class StoredPartition:
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A topic as the znodes have it."""

    name: str
    topic_id: TopicId | None
    configs: dict[str, str]
    partitions: list[StoredPartition]
    is_marked_for_deletion: bool


class ZooKeeperAdmin:
    """One session on the store; `close` it, or use it as an async context manager."""

    def __init__(self, store: MetadataStore, random: Random) -> None:
        self._store = store
        self._random = random

    @classmethod
    async def connect(
        cls, runtime: Runtime, connect_string: str, credentials: Path | None = None
    ) -> ZooKeeperAdmin:
        """With `credentials` (`user:password`, for the brokers' znodes) what is written belongs to
        them."""
        from ottla.zk.client.store import ZooKeeperClient
        from ottla.zk.credentials import digest_credentials

        try:
            store = await ZooKeeperClient.connect(
                runtime,
                connect_string,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                credentials=digest_credentials(credentials),
            )
        except ConnectionLossError:
            raise StoreUnreachable(
                f"Timed out waiting for connection to ZooKeeper at {connect_string}"
            ) from None
        if credentials is None:
            return cls(store, runtime.random)
        from ottla.metadata.node_acls import SecuredStore

        return cls(SecuredStore(store), runtime.random)

    async def __aenter__(self) -> ZooKeeperAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._store.close()

    async def user_names(self) -> list[str]:
        """Users that have configs, sorted."""
        return sorted(desanitize(name) for name in await user_names(self._store))

    async def user_configs(self, name: str) -> dict[str, str]:
        return await read_entity(self._store, user_path(name))

    async def change_user_configs(
        self, name: str, edit: Callable[[dict[str, str]], dict[str, str]]
    ) -> None:
        """Writes what `edit` makes of them; brokers, where there are some, take it over."""
        await change_entity(self._store, user_path(name), edit)

    async def topic_names(self) -> list[str]:
        return sorted(await self._children(znodes.TopicsZnode.path()))

    async def topics_marked_for_deletion(self) -> set[str]:
        return set(await self._children(znodes.DeleteTopicsZnode.path()))

    async def brokers(self) -> list[BrokerMetadata]:
        """The registered brokers, by id."""
        ids = [int(name) for name in await self._children(znodes.BrokerIdsZnode.path())]
        found = await self._read_all(znodes.BrokerIdZnode.path(broker_id) for broker_id in ids)
        return sorted(
            BrokerMetadata(broker_id, znodes.BrokerIdZnode.decode(broker_id, read[0]).rack)
            for broker_id, read in zip(ids, found, strict=True)
            if read is not None
        )

    async def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str],
        *,
        rack_aware: RackAwareMode = RackAwareMode.ENFORCED,
    ) -> None:
        brokers = select_brokers(await self.brokers(), rack_aware)
        validation.check_bound(partitions)
        assignment = assign_replicas(brokers, partitions, replication_factor, random=self._random)
        await self.create_topic_with_assignment(name, assignment, configs)

    async def create_topic_with_assignment(
        self, name: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        """Brokers in the assignment need not exist (as in Kafka)."""
        validation.check_new_topic(name, TopicNames(await self.topic_names()), assignment, configs)
        # First the configs, so that the controller finds them when it sees the topic.
        await self._write_configs(name, configs)
        replicas = {p: znodes.ReplicaAssignment(tuple(ids)) for p, ids in assignment.items()}
        try:
            await self._create(znodes.TopicZnode.path(name), znodes.TopicZnode.encode(replicas))
        except NodeExistsError:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists."
            ) from None

    async def add_partitions(
        self, name: str, total: int, assignment: Mapping[int, Sequence[int]] | None
    ) -> None:
        """`assignment` names the brokers of every partition; those that exist are passed over."""
        read = await self._read(znodes.TopicZnode.path(name))
        stored = znodes.TopicZnode.decode(read[0] if read else None)
        if not stored.partitions:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic {name} does not exist")
        brokers = select_brokers(await self.brokers())
        present = len(stored.partitions)
        given = {p: ids for p, ids in (assignment or {}).items() if p >= present}
        new = validation.plan_direct_expansion(
            name,
            total,
            existing={p: a.replicas for p, a in stored.partitions.items()},
            proposed=given or None,
            brokers=brokers,
            random=self._random,
        )
        combined = stored.partitions | {
            p: znodes.ReplicaAssignment(tuple(ids)) for p, ids in new.items()
        }
        data = znodes.TopicZnode.encode(combined, stored.topic_id)
        await self._store.set(znodes.TopicZnode.path(name), data)

    async def alter_configs(
        self, name: str, added: Mapping[str, str], removed: Iterable[str]
    ) -> None:
        gone = set(removed)
        merged = await self.configs(name) | dict(added)
        configs = {key: value for key, value in merged.items() if key not in gone}
        validate_name(name)
        if await self._store.exists(znodes.TopicZnode.path(name)) is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist."
            )
        validate_topic_configs(configs)
        await self._write_configs(name, configs)
        change = znodes.ConfigChange(f"{znodes.ConfigZnode.TOPICS}/{name}")
        await self._create(
            znodes.ConfigChangeZnode.path(),
            znodes.ConfigChangeZnode.encode(change),
            sequential=True,
        )

    async def configs(self, name: str) -> dict[str, str]:
        read = await self._read(znodes.ConfigZnode.path(znodes.ConfigZnode.TOPICS, name))
        return znodes.ConfigZnode.decode(read[0] if read else None)

    async def mark_for_deletion(self, name: str) -> bool:
        """False where it was marked already."""
        if is_internal(name):
            raise AdminOperationError(
                f"Topic {name} is a kafka internal topic and is not allowed to be marked for "
                "deletion."
            )
        try:
            await self._create(znodes.DeleteTopicZnode.path(name), None)
        except NodeExistsError:
            return False
        return True

    async def exists(self, name: str) -> bool:
        return await self._store.exists(znodes.TopicZnode.path(name)) is not None

    async def describe(self, names: Iterable[str]) -> list[StoredTopic]:
        """The topics that are there; one that vanished in the meantime is left out."""
        marked = await self.topics_marked_for_deletion()
        found = []
        for name in names:
            read = await self._read(znodes.TopicZnode.path(name))
            if read is None:
                continue
            stored = znodes.TopicZnode.decode(read[0])
            found.append(
                StoredTopic(
                    name,
                    stored.topic_id,
                    await self.configs(name),
                    await self._partitions(name, stored.partitions),
                    name in marked,
                )
            )
        return found

    async def _partitions(
        self, name: str, assigned: Mapping[int, znodes.ReplicaAssignment]
    ) -> list[StoredPartition]:
        numbers = sorted(assigned)
        states = await self._read_all(
            znodes.TopicPartitionStateZnode.path(TopicPartition(name, p)) for p in numbers
        )
        partitions = []
        for number, read in zip(numbers, states, strict=True):
            state = znodes.TopicPartitionStateZnode.decode(*read) if read else None
            leader = None if state is None or state.leader == znodes.NO_LEADER else state.leader
            isr = state.isr if state else ()
            partitions.append(StoredPartition(number, leader, assigned[number].replicas, isr))
        return partitions

    async def _write_configs(self, name: str, configs: Mapping[str, str]) -> None:
        path = znodes.ConfigZnode.path(znodes.ConfigZnode.TOPICS, name)
        data = znodes.ConfigZnode.encode(configs)
        try:
            await self._store.set(path, data)
        except NoNodeError:
            try:
                await self._create(path, data)
            except NodeExistsError:
                await self._store.set(path, data)

    async def _create(self, path: str, data: bytes | None, *, sequential: bool = False) -> None:
        """Creates a node, and its parents where no broker ever made them (with null data)."""
        mode = CreateMode.PERSISTENT_SEQUENTIAL if sequential else CreateMode.PERSISTENT
        try:
            await self._store.create(path, data, mode=mode)
        except NoNodeError:
            parent = path.rpartition("/")[0]
            if not parent:
                raise
            try:
                await self._create(parent, None)
            except NodeExistsError:
                pass  # someone else made it in the meantime
            await self._store.create(path, data, mode=mode)

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._store.children(path)
        except NoNodeError:
            return []

    async def _read(self, path: str) -> tuple[bytes | None, Stat] | None:
        try:
            return await self._store.get(path)
        except NoNodeError:
            return None

    async def _read_all(self, paths: Iterable[str]) -> list[Any]:
        wanted = list(paths)
        found: list[Any] = []
        for first in range(0, len(wanted), _READS_AT_ONCE):
            group = wanted[first : first + _READS_AT_ONCE]
            found += await asyncio.gather(*(self._read(path) for path in group))
        return found
