"""Creates, expands and deletes topics by writing znodes (ZkAdminManager, AdminZkClient).

The checks are pure functions of `ottla.topics.validation`; here is what reads the store, writes to
it, and waits for the controller's work to show in this broker's metadata cache.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from ottla.bounds.repeated_lines import LineLimits, RepeatedLines
from ottla.bounds.turns import Turns
from ottla.broker.admin.automatic_topics import AutomaticTopics, is_legal
from ottla.broker.admin.policies import TopicRequest, load_create_topic_policy
from ottla.broker.membership.registration import registrations
from ottla.broker.notes.topic_notes import Asker, TopicNotes
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import znodes
from ottla.metadata.store import (
    BadArgumentsError,
    BadVersionError,
    Create,
    NodeExistsError,
    NoNodeError,
    Op,
)
from ottla.topics import names, validation
from ottla.topics.assignment import BrokerMetadata, select_brokers
from ottla.topics.configs import describe, is_protected
from ottla.topics.names import TopicNames
from ottla.types import ZERO_TOPIC_ID, TopicId, random_topic_id
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.membership.ports import ControllerClient, ControllerPort
    from ottla.broker.quotas.mutations import MutationQuota
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime

logger = logging.getLogger(__name__)

# Topics per multi: ZooKeeper does 9,400 creates a second in multis of 100 and 272 one by one.
_TOPICS_PER_MULTI = 50
# Well below jute.maxbuffer, which paths and headers count for as well.
_BYTES_PER_MULTI = 512 * 1024
_PARTITIONS_SHOWN = 1000
# Lines that any client can cause, of whatever kind the refusal is.
_REFUSAL_LIMITS = LineLimits(per_key=100, per_source=500)
# Above this many topics one listing of all names is cheaper than a look-up for each.
_LOOKUPS = 20
_EXPANSION_ATTEMPTS = 5
_READS_IN_FLIGHT = 1_000
# Topics that a broker makes of its own accord: internal ones, and those that others named.
_THIS_BROKER = Asker("auto-creation")

CreatedTopic = m.CreateTopicsResponse.CreatableTopicResult
CreatedConfig = m.CreateTopicsResponse.CreatableTopicConfigs
ExpandedTopic = m.CreatePartitionsResponse.CreatePartitionsTopicResult


class TopicAdmin:
    """The topic operations of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        store: MetadataStore,
        metadata_cache: MetadataCache,
        controller: ControllerPort,
        controller_client: ControllerClient,
        notes: TopicNotes | None = None,
    ) -> None:
        self.config = config
        self._notes = TopicNotes(runtime.clock) if notes is None else notes
        self._runtime = runtime
        self._turns = Turns()
        self._refusals = RepeatedLines(logger, runtime.clock, _REFUSAL_LIMITS)
        self._store = store
        self._cache = metadata_cache
        self._controller = controller
        self._policy = load_create_topic_policy(
            config.optional_text("create.topic.policy.class.name")
        )
        self._automatic = AutomaticTopics(
            config,
            metadata_cache,
            controller,
            controller_client,
            self.create_topics,
            self._existing_topics,
            self._notes,
        )
        self.missing_topics = self._automatic.missing_topics
        self.ensure_internal_topic = self._automatic.ensure_internal_topic
        self.close = self._automatic.close

    # creation

    async def create_topics(
        self,
        topics: Sequence[m.CreateTopicsRequest.CreatableTopic],
        *,
        timeout_ms: int,
        validate_only: bool = False,
        quota: MutationQuota | None = None,
        asker: Asker = _THIS_BROKER,
    ) -> list[CreatedTopic]:
        """One result per topic, in order. The names must be distinct."""
        existing = await self._existing_topics([topic.name for topic in topics])
        brokers = [BrokerMetadata(info.id, info.rack) for info in self._cache.alive_brokers()]
        failures: dict[str, KafkaError] = {}
        plans: dict[str, validation.CreationPlan] = {}
        async for topic in self._turns.each(topics):
            try:
                plan = self._plan(topic, existing, brokers)
                if quota is not None and not validate_only:
                    quota.record(plan.partitions)
                plans[topic.name] = plan
            except KafkaError as error:
                self._say_refused("topic %s is not created: %s", topic.name, error)
                failures[topic.name] = error
            else:
                existing.add(topic.name)
        ids: dict[str, TopicId] = {}
        if not validate_only:
            for plan in plans.values():
                self._notes.asked(plan.name, plan.assignment, asker)
            ids = {name: random_topic_id(self._runtime.random.randbytes) for name in plans}
            failures |= await self._write_new_topics(plans, ids)
            written = {name: p.assignment for name, p in plans.items() if name not in failures}
            # An answer that came too early for the leaders names the id all the same.
            ids = {name: ids[name] for name in written}
            failures |= await self._await_leaders(written, timeout_ms)
        described: dict[tuple[tuple[str, str], ...], list[CreatedConfig]] = {}
        return [
            _failed_creation(topic.name, failures[topic.name], ids.get(topic.name, ZERO_TOPIC_ID))
            if topic.name in failures
            else self._created(plans[topic.name], ids.get(topic.name), described)
            for topic in topics
        ]

    def _say_refused(self, text: str, topic: str, error: KafkaError) -> None:
        self._refusals.log(logging.INFO, "topics refused", error.code, text, topic, error)

    def _plan(
        self,
        topic: m.CreateTopicsRequest.CreatableTopic,
        existing: TopicNames,
        brokers: list[BrokerMetadata],
    ) -> validation.CreationPlan:
        if self._controller.renames.is_under_way(topic.name):
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS,
                f"Topic '{topic.name}' already exists: a rename from or to it is under way.",
            )
        plan = validation.plan_creation(
            validation.CreationRequest(
                name=topic.name,
                partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[
                    (entry.partition_index, entry.broker_ids) for entry in topic.assignments
                ],
                configs=[(config.name, config.value) for config in topic.configs],
            ),
            cached_topics=self._cache.topic_names(),
            existing_topics=existing,
            brokers=brokers,
            default_partitions=self.config.integer("num.partitions"),
            default_replication_factor=self.config.integer("default.replication.factor"),
            random=self._runtime.random,
        )
        if self._policy is not None:
            manual = bool(topic.assignments)
            self._policy.validate(
                TopicRequest(
                    topic=plan.name,
                    num_partitions=None if manual else plan.partitions,
                    replication_factor=None if manual else plan.replication_factor,
                    replicas_assignments=plan.assignment if manual else None,
                    configs=plan.configs,
                )
            )
        return plan

    async def _existing_topics(self, wanted: Sequence[str]) -> TopicNames:
        """The store's topics, as far as they matter for `wanted`."""
        legal = [name for name in wanted if is_legal(name)]
        if len(legal) > _LOOKUPS or any(names.has_collision_chars(name) for name in legal):
            return TopicNames(await self._store.children(znodes.TopicsZnode.path()))
        found = await asyncio.gather(
            *(self._store.exists(znodes.TopicZnode.path(name)) for name in legal)
        )
        return TopicNames(name for name, stat in zip(legal, found, strict=True) if stat is not None)

    async def _write_new_topics(
        self, plans: dict[str, validation.CreationPlan], ids: dict[str, TopicId]
    ) -> dict[str, KafkaError]:
        failures: dict[str, KafkaError] = {}
        batches: list[_Batch] = []
        async for plan in self._turns.each(plans.values()):
            logger.info(
                "Creating topic %s with configuration %s and initial partition assignment %s",
                plan.name,
                plan.configs,
                _shown(plan.assignment),
            )
            # The config first: whoever sees the topic finds its config.
            config = Create(_config_path(plan.name), znodes.ConfigZnode.encode(plan.configs))
            data = _topic_data(plan, ids[plan.name])
            size = len(config.data or b"") + len(data)
            try:
                validation.check_stored_size(plan.name, size)
            except KafkaError as error:
                failures[plan.name] = error
                continue
            if not batches or not batches[-1].has_room(size):
                batches.append(_Batch())
            batches[-1].add(plan, [config, Create(znodes.TopicZnode.path(plan.name), data)], size)
        for failed in await asyncio.gather(*(self._write_batch(batch, ids) for batch in batches)):
            failures |= failed
        return failures

    async def _write_batch(self, batch: _Batch, ids: dict[str, TopicId]) -> dict[str, KafkaError]:
        results = await self._store.multi(batch.ops)
        if all(result.error is None for result in results):
            for plan in batch.plans:
                self._notes.wrote(plan.name, znodes.TopicZnode.path(plan.name))
            return {}
        # A leftover config or a topic that came meanwhile: sort them out one by one.
        failures: dict[str, KafkaError] = {}
        for plan in batch.plans:
            try:
                await self._write_one(plan, ids[plan.name])
            except KafkaError as error:
                failures[plan.name] = error
        return failures

    async def _write_one(self, plan: validation.CreationPlan, topic_id: TopicId) -> None:
        exists = KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{plan.name}' already exists.")
        if await self._store.exists(znodes.TopicZnode.path(plan.name)) is not None:
            raise exists
        await write_config(self._store, _config_path(plan.name), plan.configs)
        try:
            await self._store.create(znodes.TopicZnode.path(plan.name), _topic_data(plan, topic_id))
        except NodeExistsError:
            raise exists from None
        self._notes.wrote(plan.name, znodes.TopicZnode.path(plan.name))

    async def _await_leaders(
        self, wanted: Mapping[str, Collection[int]], timeout_ms: int
    ) -> dict[str, KafkaError]:
        """REQUEST_TIMED_OUT for the topics whose partitions do not all have a leader in time."""
        waiting = set(wanted)

        def all_led() -> bool:
            waiting.difference_update(
                [name for name in waiting if self._has_leaders(name, wanted[name])]
            )
            return not waiting

        if waiting and timeout_ms > 0:
            await self._cache.wait_until(frozenset(waiting), all_led, timeout_ms)
        return {name: KafkaError(ErrorCode.REQUEST_TIMED_OUT) for name in waiting}

    async def await_existing(self, topics: Sequence[str], timeout_ms: int) -> set[str]:
        """Waits until topics that the store has are known here and led; returns those that are
        not in time."""
        wanted = {}
        for name in topics:
            try:
                data, _ = await self._store.get(znodes.TopicZnode.path(name))
            except NoNodeError:
                continue  # deleted again
            wanted[name] = list(znodes.TopicZnode.decode(data).partitions)
        return set(await self._await_leaders(wanted, timeout_ms))

    def _has_leaders(self, topic: str, partitions: Collection[int]) -> bool:
        known = self._cache.topic_partitions(topic)
        return all(
            partition in known and known[partition].leader != znodes.NO_LEADER
            for partition in partitions
        )

    def _created(
        self,
        plan: validation.CreationPlan,
        topic_id: TopicId | None,
        described: dict[tuple[tuple[str, str], ...], list[CreatedConfig]],
    ) -> CreatedTopic:
        """Topics that are made together often have the same configs: `described` has them."""
        key = tuple(plan.configs.items())
        if key not in described:
            described[key] = self._described(plan)
        result = CreatedTopic(
            name=plan.name,
            error_message=None,
            num_partitions=plan.partitions,
            replication_factor=plan.replication_factor,
            configs=described[key],
        )
        if topic_id is not None:
            result.topic_id = topic_id
        return result

    def _described(self, plan: validation.CreationPlan) -> list[CreatedConfig]:
        return [
            CreatedConfig(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe(self.config, plan.configs)
        ]

    # expansion

    async def create_partitions(
        self,
        topics: Sequence[m.CreatePartitionsRequest.CreatePartitionsTopic],
        *,
        timeout_ms: int,
        validate_only: bool = False,
        quota: MutationQuota | None = None,
        asker: Asker = _THIS_BROKER,
    ) -> list[ExpandedTopic]:
        """One result per topic, in order. Raises KafkaError where racks are set only in part."""
        brokers = await self._registered_brokers()
        failures: dict[str, KafkaError] = {}
        expanded: dict[str, Collection[int]] = {}
        for topic in topics:
            request = validation.ExpansionRequest(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else [entry.broker_ids for entry in topic.assignments],
            )
            try:
                expanded[topic.name] = await self._expand(
                    request, brokers, validate_only, quota, asker
                )
            except KafkaError as error:
                self._say_refused("topic %s is not expanded: %s", topic.name, error)
                failures[topic.name] = error
        if not validate_only:
            failures |= await self._await_leaders(expanded, timeout_ms)
        return [_expansion_result(topic.name, failures.get(topic.name)) for topic in topics]

    async def _registered_brokers(self) -> list[BrokerMetadata]:
        found = await registrations(self._store)
        return select_brokers(
            BrokerMetadata(broker_id, znodes.BrokerIdZnode.decode(broker_id, data).rack)
            for broker_id, data in found.items()
        )

    async def _expand(
        self,
        request: validation.ExpansionRequest,
        brokers: list[BrokerMetadata],
        validate_only: bool,
        quota: MutationQuota | None,
        asker: Asker,
    ) -> Collection[int]:
        """All partitions that the topic then has. Kafka overwrites whatever version is there; here
        a change in between is read again."""
        path = znodes.TopicZnode.path(request.name)
        for _ in range(_EXPANSION_ATTEMPTS):
            try:
                data, stat = await self._store.get(path)
            except (NoNodeError, BadArgumentsError):
                data, stat = None, None
            present = znodes.TopicZnode.decode(data)
            added = validation.plan_expansion(
                request,
                existing={p: a.replicas for p, a in present.partitions.items()},
                brokers=brokers,
                random=self._runtime.random,
                is_queued_for_deletion=self._controller.is_queued_for_deletion(request.name),
                is_reassigning=any(a.adding or a.removing for a in present.partitions.values()),
            )
            assignment = dict(present.partitions)
            for partition, replicas in added.items():
                assignment[partition] = znodes.ReplicaAssignment(tuple(replicas))
            if validate_only or stat is None:
                return assignment
            if quota is not None:
                quota.record(len(added))
                quota = None  # once, however often the write is tried
            self._notes.asked(request.name, added, asker)
            try:
                encoded = znodes.TopicZnode.encode(assignment, present.topic_id)
                validation.check_stored_size(request.name, len(encoded))
                await self._store.set(path, encoded, stat.version)
            except BadVersionError:
                continue
            except NoNodeError:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"The topic '{request.name}' does not exist.",
                ) from None
            self._notes.wrote(request.name, path)
            return assignment
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    # deletion

    async def delete_topics(
        self,
        topics: Sequence[str],
        *,
        timeout_ms: int,
        quota: MutationQuota | None = None,
        asker: Asker = _THIS_BROKER,
    ) -> dict[str, ErrorCode]:
        """Marks topics for deletion and waits until they have left the metadata cache."""
        codes = dict.fromkeys(topics, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        known = []
        for name in topics:
            if self._cache.contains_topic(name):
                try:
                    if quota is not None:
                        quota.record(len(self._cache.topic_partitions(name)))
                    self._notes.asked(name, self._cache.topic_partitions(name), asker)
                    known.append(name)
                except KafkaError as error:
                    codes[name] = error.code
        protected = await self._protected(known)
        codes.update(dict.fromkeys(protected, ErrorCode.POLICY_VIOLATION))
        known = [name for name in known if name not in protected]
        marked = await asyncio.gather(*(self._mark_for_deletion(name) for name in known))
        waiting = {name for name, exists in zip(known, marked, strict=True) if exists}

        def all_gone() -> bool:
            gone = [name for name in waiting if not self._cache.contains_topic(name)]
            waiting.difference_update(gone)
            codes.update(dict.fromkeys(gone, ErrorCode.NONE))
            return not waiting

        if waiting and timeout_ms > 0:
            await self._cache.wait_until(frozenset(waiting), all_gone, timeout_ms)
        codes.update(dict.fromkeys(waiting, ErrorCode.REQUEST_TIMED_OUT))
        return codes

    async def _protected(self, topics: Sequence[str]) -> set[str]:
        """As it stands in the store: a change may not have come to this broker yet."""
        found = set()
        for start in range(0, len(topics), _READS_IN_FLIGHT):
            some = topics[start : start + _READS_IN_FLIGHT]
            configs = await asyncio.gather(*map(self._stored_config, some))
            found |= {n for n, config in zip(some, configs, strict=True) if is_protected(config)}
        return found

    async def _stored_config(self, topic: str) -> dict[str, str]:
        try:
            data, _ = await self._store.get(_config_path(topic))
        except NoNodeError:
            return {}
        return znodes.ConfigZnode.decode(data)

    async def _mark_for_deletion(self, topic: str) -> bool:
        """False where the topic's znode is gone; a mark that is there already counts."""
        if await self._store.exists(znodes.TopicZnode.path(topic)) is None:
            return False
        try:
            await self._store.create(znodes.DeleteTopicZnode.path(topic))
        except NodeExistsError:
            logger.info("topic %s is already marked for deletion", topic)
        else:
            self._notes.wrote(topic, znodes.DeleteTopicZnode.path(topic))
        return True


class _Batch:
    """Topics that are written together, as far as they fit one packet."""

    def __init__(self) -> None:
        self.plans: list[validation.CreationPlan] = []
        self.ops: list[Op] = []
        self._size = 0

    def has_room(self, size: int) -> bool:
        return len(self.plans) < _TOPICS_PER_MULTI and self._size + size <= _BYTES_PER_MULTI

    def add(self, plan: validation.CreationPlan, ops: list[Op], size: int) -> None:
        self.plans.append(plan)
        self.ops += ops
        self._size += size


def _shown(assignment: Mapping[int, Sequence[int]]) -> str:
    """For the log; of very many partitions the first ones."""
    first = dict(islice(assignment.items(), _PARTITIONS_SHOWN))
    left = len(assignment) - len(first)
    return f"{first} and {left} more" if left else str(first)


def _config_path(topic: str) -> str:
    return znodes.ConfigZnode.path(znodes.ConfigZnode.TOPICS, topic)


def _topic_data(plan: validation.CreationPlan, topic_id: TopicId) -> bytes:
    replicas = {p: znodes.ReplicaAssignment(tuple(ids)) for p, ids in plan.assignment.items()}
    return znodes.TopicZnode.encode(replicas, topic_id)


async def write_config(store: MetadataStore, path: str, configs: Mapping[str, str]) -> None:
    """Sets a config znode, or creates it where there is none (setOrCreateEntityConfigs)."""
    data = znodes.ConfigZnode.encode(configs)
    try:
        await store.set(path, data)
    except NoNodeError:
        await store.create(path, data)


def as_api_error(error: KafkaError) -> tuple[ErrorCode, str | None]:
    """ApiError.fromThrowable: no message for -1, none that only repeats the code's text."""
    if error.code == ErrorCode.UNKNOWN_SERVER_ERROR or error.message == error.code.text:
        return error.code, None
    return error.code, error.message


def _failed_creation(name: str, error: KafkaError, topic_id: TopicId) -> CreatedTopic:
    code, message = as_api_error(error)
    return CreatedTopic(
        name=name, topic_id=topic_id, error_code=code, error_message=message, configs=[]
    )


def _expansion_result(name: str, error: KafkaError | None) -> ExpandedTopic:
    if error is None:
        return ExpandedTopic(name=name)
    code, message = as_api_error(error)
    return ExpandedTopic(name=name, error_code=code, error_message=message)


def duplicates(given: Sequence[str]) -> set[str]:
    """The names that occur more than once."""
    seen: set[str] = set()
    twice: set[str] = set()
    for name in given:
        (twice if name in seen else seen).add(name)
    return twice
