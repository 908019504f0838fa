"""How large topics are: bytes from the log directories, records from the offsets.

Both ask all brokers about all partitions, so what was answered is used for a time that grows with
what it cost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec

from ottla.client.offsets import EARLIEST, LATEST
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.console.picture import Picture

T = TypeVar("T")

# The asking takes under 1 % of the time.
_COST_FACTOR = 100
MAX_AGE_S = 300.0
# A broker that does not answer must not keep the others' numbers back for long.
TIMEOUT_MS = 5_000
# Partitions of one ListOffsets: the answers of larger ones would keep brokers from other work.
_AT_ONCE = 2_000


class Sizes(msgspec.Struct):
    """Bytes of all replicas by topic. `problems` tells of brokers that did not say."""

    bytes: dict[str, int]
    problems: list[str]


class Records(msgspec.Struct):
    """Offsets between the start and the end of the logs, by topic; partitions without a leader are
    not counted."""

    records: dict[str, int]
    problems: list[str]


class Remembered(Generic[T]):
    """The last answer, while it is young; all who ask meanwhile wait for the same."""

    def __init__(self, take: Callable[[], Awaitable[T]], min_age_s: float) -> None:
        self._take = take
        self._min_age_s = min_age_s
        self._taking: asyncio.Task[T] | None = None
        self._good_until_s = 0.0

    async def get(self) -> T:
        now_s = asyncio.get_running_loop().time()
        task = self._taking
        is_over = task is not None and task.done()
        if task is None or (is_over and (now_s >= self._good_until_s or _failed(task))):
            task = self._taking = asyncio.ensure_future(self._timed())
        return await asyncio.shield(task)

    async def _timed(self) -> T:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        answer = await self._take()
        cost_s = loop.time() - begun_s
        age_s = min(max(self._min_age_s, _COST_FACTOR * cost_s), MAX_AGE_S)
        self._good_until_s = loop.time() + age_s
        return answer


def _failed(task: asyncio.Task[T]) -> bool:
    return task.cancelled() or task.exception() is not None


async def all_sizes(admin: Admin, brokers: Iterable[int]) -> Sizes:
    """One DescribeLogDirs per broker, one after the other: nobody waits for it."""
    total: Counter[str] = Counter()
    problems = []
    for broker in brokers:
        try:
            answer = await _log_dirs(admin, broker, None)
        except KafkaError as error:
            problems.append(f"Broker {broker}: {error}")
            continue
        for result in answer.results:
            for topic in result.topics:
                total[topic.name] += sum(replica.partition_size for replica in topic.partitions)
    return Sizes(dict(total), problems)


async def all_records(admin: Admin, picture: Picture) -> Records:
    """Of topics whose partitions all have a leader, exactly; of others what can be counted."""
    led = {
        TopicPartition(topic.name, picture.partitions[entry]): picture.leaders[entry]
        for topic, entry in picture.each()
        if picture.leaders[entry] >= 0
    }
    offsets, problems = await offsets_of(admin, led)
    total: Counter[str] = Counter()
    for partition, (low, high) in offsets.items():
        if low is not None and high is not None:
            total[partition.topic] += high - low
    return Records(dict(total), problems)


Offsets = dict[TopicPartition, tuple[int | None, int | None]]


async def offsets_of(
    admin: Admin, leaders: Mapping[TopicPartition, int]
) -> tuple[Offsets, list[str]]:
    """Begin and end of each log, None where its leader does not say, and what went wrong.

    The leaders are asked that the picture names: where one has moved there is no number this time,
    and nobody waits for partitions without a leader as a consumer would."""
    groups: dict[int, list[TopicPartition]] = {}
    for partition, leader in leaders.items():
        groups.setdefault(leader, []).append(partition)
    answers = await asyncio.gather(
        *(_offsets_at(admin, leader, group) for leader, group in groups.items()),
        return_exceptions=True,
    )
    found: Offsets = dict.fromkeys(leaders, (None, None))
    problems = []
    for leader, answer in zip(groups, answers, strict=True):
        if isinstance(answer, KafkaError | OSError):
            problems.append(f"Broker {leader}: {answer}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found |= answer
    return found, problems


async def _offsets_at(admin: Admin, leader: int, group: Sequence[TopicPartition]) -> Offsets:
    found: Offsets = {}
    for begin in range(0, len(group), _AT_ONCE):
        some = group[begin : begin + _AT_ONCE]
        lows = await _list_offsets(admin, leader, some, EARLIEST)
        highs = await _list_offsets(admin, leader, some, LATEST)
        found |= {partition: (lows.get(partition), highs.get(partition)) for partition in some}
    return found


async def _list_offsets(
    admin: Admin, leader: int, group: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    request_class = m.ListOffsetsRequest
    topics: dict[str, list[int]] = {}
    for partition in group:
        topics.setdefault(partition.topic, []).append(partition.partition)
    request = request_class(
        replica_id=-1,
        topics=[
            request_class.ListOffsetsTopic(
                name=topic,
                partitions=[
                    request_class.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index in indexes
                ],
            )
            for topic, indexes in topics.items()
        ],
    )
    answer = await admin.cluster.send_to_broker(
        leader, request, timeout_ms=TIMEOUT_MS, min_version=1
    )
    return {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in answer.topics
        for partition in topic.partitions
        if not partition.error_code
    }


async def replica_sizes(
    admin: Admin, brokers: Iterable[int], name: str, partitions: list[int]
) -> tuple[dict[tuple[int, int], int], list[str]]:
    """Bytes by (partition, broker) of one topic, and what brokers did not say."""
    wanted = [TopicPartition(name, partition) for partition in partitions]
    ids = list(brokers)
    answers = await asyncio.gather(
        *(_log_dirs(admin, broker, wanted) for broker in ids), return_exceptions=True
    )
    found: dict[tuple[int, int], int] = {}
    problems = []
    for broker, answer in zip(ids, answers, strict=True):
        if isinstance(answer, KafkaError | OSError):
            problems.append(f"Broker {broker}: {answer}")
            continue
        if isinstance(answer, BaseException):
            raise answer
        for result in answer.results:
            for topic in result.topics:
                for replica in topic.partitions:
                    # A future one, on its way to another folder, is not counted twice.
                    if topic.name == name and not replica.is_future_key:
                        found[replica.partition_index, broker] = replica.partition_size
    return found, problems


async def _log_dirs(
    admin: Admin, broker: int, partitions: list[TopicPartition] | None
) -> m.DescribeLogDirsResponse:
    topic_class = m.DescribeLogDirsRequest.DescribableLogDirTopic
    by_topic: dict[str, list[int]] = {}
    for partition in partitions or ():
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    request = m.DescribeLogDirsRequest(
        topics=None
        if partitions is None
        else [topic_class(topic=topic, partitions=some) for topic, some in by_topic.items()]
    )
    answer: m.DescribeLogDirsResponse = await admin.cluster.send_to_broker(
        broker, request, timeout_ms=TIMEOUT_MS
    )
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    return answer
