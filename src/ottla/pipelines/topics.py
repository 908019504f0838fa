"""Topics of a pipeline: those it writes are made where they are missing, those it reads must be
there. Through the admin client, so on Ottla and Apache Kafka alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from ottla.client.admin.client import Admin
from ottla.client.admin.types import NewTopic, TopicDescription, raise_first_error
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.client.settings import AdminConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines.spec_keys import SpecError, TopicSpec
from ottla.runtime import system_runtime
from ottla.types import TopicPartition

T = TypeVar("T")
HOLDS_RECORDS = "the topic {} holds records; 'append: true' adds to them"
_APPEAR_TIMEOUT_S = 60.0
_POLL_S = 0.05


def with_admin(
    bootstrap_servers: str, kafka: Mapping[str, str], work: Callable[[Admin], Awaitable[T]]
) -> T:
    """Runs `work` with a session of its own, also where this thread has an event loop already."""

    async def session() -> T:
        config = AdminConfig.from_properties(
            {name.removeprefix("kafka."): value for name, value in kafka.items()}
        )
        connection = Admin.connect(
            config.connected(system_runtime()),
            bootstrap_servers,
            timeout_ms=config.timeout_ms,
            credentials=config.credentials,
        )
        async with connection as admin:
            return await work(admin)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(session())
    return _in_a_thread(session)


def _in_a_thread(session: Callable[[], Awaitable[T]]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []

    async def kept() -> None:
        try:
            results.append(await session())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=lambda: asyncio.run(kept()), name="ottla-admin")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


async def ensure_topics(admin: Admin, specs: Iterable[TopicSpec]) -> list[str]:
    """Makes those that are missing and returns their names; raises SpecError for a topic that
    has fewer partitions than declared."""
    wanted = {spec.name: spec for spec in specs}
    there = await describe(admin, wanted)
    missing = [spec for name, spec in wanted.items() if name not in there]
    for name, description in there.items():
        check_partitions(wanted[name], description)
    if missing:
        await _create(admin, missing)
    return [spec.name for spec in missing]


def check_partitions(spec: TopicSpec, there: TopicDescription) -> None:
    """Raises SpecError for a topic that has fewer partitions than declared."""
    count = len(there.partitions)
    if count < spec.partitions:
        raise SpecError(
            f"the topic {spec.name} has {count} partitions, {spec.partitions} are declared: "
            f"ottla topics --alter --topic {spec.name} --partitions {spec.partitions}"
        )


def new_topic(spec: TopicSpec) -> NewTopic:
    return NewTopic(spec.name, spec.partitions, spec.replication_factor, configs=dict(spec.configs))


async def make_topic(admin: Admin, spec: TopicSpec) -> None:
    """Raises SpecError where the topic is there already."""
    if await describe(admin, [spec.name]):
        raise SpecError(f"the topic {spec.name} is there already")
    await _create(admin, [spec])


async def _create(admin: Admin, specs: list[TopicSpec]) -> None:
    answers = await admin.create_topics(map(new_topic, specs))
    for name, answer in answers.items():
        # Somebody else made it in between: as good.
        if isinstance(answer, KafkaError) and answer.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise SpecError(f"the topic {name} cannot be made: {answer}")
    await await_led(admin, answers)


async def await_led(admin: Admin, names: Collection[str]) -> None:
    """Until all of them are there and every partition has a leader."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _APPEAR_TIMEOUT_S
    while True:
        try:
            there = await describe(admin, names)
        except KafkaError as error:
            if error.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                raise
            there = {}  # a broker that has just heard of it
        led = [all(p.leader >= 0 for p in topic.partitions) for topic in there.values()]
        if len(there) == len(names) and all(led):
            return
        if loop.time() > deadline:
            raise SpecError(f"the topics {', '.join(names)} do not appear")
        await asyncio.sleep(_POLL_S)


async def holds_records(admin: Admin, topic: TopicDescription) -> bool:
    partitions = [TopicPartition(topic.name, p.partition) for p in topic.partitions]
    first = await list_offsets(admin.cluster, partitions, EARLIEST)
    return first != await list_offsets(admin.cluster, partitions, LATEST)


async def bounds(admin: Admin, names: Iterable[str]) -> dict[tuple[str, int], tuple[int, int]]:
    """By topic and partition, the oldest offset that is there and the one after the newest; without
    topics that are not there."""
    there = await describe(admin, names)
    partitions = [TopicPartition(t.name, p.partition) for t in there.values() for p in t.partitions]
    first = await list_offsets(admin.cluster, partitions, EARLIEST)
    beyond = await list_offsets(admin.cluster, partitions, LATEST)
    return {(p.topic, p.partition): (first[p], beyond[p]) for p in partitions}


async def require_topics(admin: Admin, names: Iterable[str], where: str) -> None:
    wanted = list(names)
    there = await describe(admin, wanted)
    for name in wanted:
        if name not in there:
            raise SpecError(f"there is no topic {name} on {where}, and no job makes it")


async def describe(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """Those of the topics that are there."""
    answers = await admin.describe_topics(names)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return raise_first_error(
        {
            name: answer
            for name, answer in answers.items()
            if not (isinstance(answer, KafkaError) and answer.code is missing)
        }
    )
