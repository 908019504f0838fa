"""The cluster as planners and tasks of Spark see it: plain calls over `ottla.client`.

Spark calls a data source from plain functions. The client lives on a thread of its own; a call
waits for its answer. One client per process and cluster is kept: Spark reuses its Python workers.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from ottla.client.cluster import MOVED, RETRY_PAUSE_MS, Cluster, response_error
from ottla.client.offsets import PASSING, find_offsets
from ottla.config.definitions import ConfigError
from ottla.errors import ErrorCode, KafkaError
from ottla.runtime import Runtime, system_runtime
from ottla.spark.errors import OffsetError, SourceError, TopicMissing
from ottla.spark.loop_thread import LoopClosed, LoopThread, Work
from ottla.spark.options import EARLIEST, LATEST, Connect, Subscription
from ottla.types import ZERO_TOPIC_ID, TopicPartition, format_topic_id

T = TypeVar("T")

# The leader moves, or a new one does not know yet how far records are committed.
NOT_READABLE_YET = MOVED | {ErrorCode.OFFSET_NOT_AVAILABLE}
_PASSING = NOT_READABLE_YET | PASSING | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
# A topic that was just made is not known to every broker at once.
_FRESH_TOPIC_MS = 2_000
_MAX_CLIENTS = 8


def _runtime(connect: Connect) -> Runtime:
    if connect.tls is None:
        return system_runtime()
    from ottla.security.tls.network import client_runtime  # few queries need it

    try:
        return client_runtime(system_runtime(), connect.tls)
    except ConfigError as error:
        raise SourceError(f"kafka.ssl.*: {error}") from None


class TopicNow(NamedTuple):
    """A topic as the cluster has it."""

    topic_id: str
    partitions: frozenset[int]


class KafkaClient:
    """Topics and offsets, asked for in plain calls; `cluster`, `run` and `begin` are there for the
    rest. What a coroutine touches, `cluster` above all, belongs to the client's thread.

    Not for use in several threads at once.
    """

    def __init__(self, connect: Connect) -> None:
        self.connect = connect
        self.runtime = _runtime(connect)
        self.cluster = Cluster(
            self.runtime,
            connect.bootstrap,
            client_id=connect.client_id,
            credentials=connect.credentials,
        )
        self.thread = LoopThread("ottla-spark-io", self.cluster.close)
        self.requests = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result; what Kafka or the network says becomes a SourceError."""
        return self.result(self.begin(coroutine))

    def begin(self, coroutine: Coroutine[Any, Any, T]) -> Work[T]:
        """Goes on while the caller does something else; `result` waits for it."""
        with self.plain_errors():
            return self.thread.begin(coroutine)

    def result(self, work: Work[T]) -> T:
        with self.plain_errors():
            return self.thread.result(work)

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (KafkaError, LoopClosed) as error:
            raise SourceError(f"{self.connect.bootstrap}: {error}") from error
        except OSError as error:
            raise SourceError(f"{self.connect.bootstrap} cannot be reached: {error}") from error

    def close(self) -> None:
        self.thread.close()

    def now_s(self) -> float:
        """A clock for plain code. The loop's own stands still while the loop has nothing to do."""
        return self.runtime.clock.monotonic_ms() / 1000

    def topics(self, subscription: Subscription) -> dict[str, TopicNow]:
        """The subscribed topics that exist, each with the partitions that are subscribed."""
        return self.run(self._topics(subscription))

    async def _topics(self, subscription: Subscription) -> dict[str, TopicNow]:
        assigned = dict(subscription.partitions)
        names = None if subscription.kind == "subscribePattern" else subscription.topics
        answer = await self.cluster.metadata(
            list(assigned) if assigned else names, timeout_ms=self.connect.timeout_ms
        )
        self.requests += 1
        found = {}
        for topic in answer.topics:
            if names is None and not _matches(topic, subscription.pattern):
                continue
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
                raise response_error(topic.error_code, f"topic {topic.name}")
            there = frozenset(p.partition_index for p in topic.partitions)
            name = topic.name or ""
            wanted = there & set(assigned[name]) if assigned else there
            found[name] = TopicNow(_topic_id(topic), wanted)
        return dict(sorted(found.items()))

    def existing_topics(
        self, subscription: Subscription, expected: Collection[str] = ()
    ) -> dict[str, TopicNow]:
        """As `topics`; raises TopicMissing where one is not there, after a moment's patience.
        Those that are `expected` are waited for as long, and may be missing."""
        return self.run(self.find_existing_topics(subscription, expected))

    async def find_existing_topics(
        self, subscription: Subscription, expected: Collection[str] = ()
    ) -> dict[str, TopicNow]:
        deadline_s = self.now_s() + _FRESH_TOPIC_MS / 1000
        while True:
            found = await self._topics(subscription)
            missing = _missing(subscription, found)
            if not missing and all(topic in found for topic in expected):
                return found
            if self.now_s() >= deadline_s:
                break
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)
        if missing:
            raise TopicMissing(f"{', '.join(missing)} does not exist at {self.connect.bootstrap}")
        return found

    def pause(self, milliseconds: float) -> None:
        time.sleep(milliseconds / 1000)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.list_offsets(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self,
        partitions: Iterable[TopicPartition],
        *,
        read_committed: bool,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        """The ends of what may be read: the last stable offsets with `read_committed`."""
        ends = dict.fromkeys(partitions, LATEST)
        return self.run(
            self.find_offsets(ends, read_committed=read_committed, timeout_ms=timeout_ms)
        )

    def list_offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The first offset at or after a time in milliseconds, -1 where there is none; EARLIEST
        and LATEST are times too. One request per leader."""
        return self.run(self.find_offsets(times, read_committed=read_committed))

    async def find_offsets(
        self,
        times: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, int]:
        answers = await find_offsets(
            self.cluster,
            times,
            read_committed=read_committed,
            passing=_PASSING,
            timeout_ms=timeout_ms or self.connect.timeout_ms,
            on_request=self._count,
        )
        found: dict[TopicPartition, int] = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{partition}: {answer}")
            found[partition] = answer
        return found

    def _count(self) -> None:
        self.requests += 1

    def offsets_at(
        self,
        times: Mapping[TopicPartition, int],
        *,
        latest: Mapping[TopicPartition, int],
        latest_without_match: bool,
        read_committed: bool,
    ) -> dict[TopicPartition, int]:
        """Offsets by timestamp. Where no record is that young: `latest`, or an error.

        With `read_committed` a record may be young enough and not readable yet, behind the first
        of an open transaction. It will be at or after `latest`, so that is where to begin.
        """
        found = self.list_offsets(times, read_committed=read_committed)
        unmatched = [partition for partition in sorted(found) if found[partition] < 0]
        found |= {partition: latest[partition] for partition in unmatched}
        if latest_without_match or not unmatched:
            return found
        if read_committed:
            uncommitted = self.list_offsets(
                {partition: times[partition] for partition in unmatched}
            )
            unmatched = [partition for partition in unmatched if uncommitted[partition] < 0]
        for partition in unmatched:
            raise OffsetError(
                f"{partition} has no record at or after timestamp {times[partition]}; "
                "startingOffsetsByTimestampStrategy=latest starts at its end"
            )
        return found


def _matches(topic: Any, pattern: str) -> bool:
    return not topic.is_internal and re.fullmatch(pattern, topic.name or "") is not None


def _topic_id(topic: Any) -> str:
    return "" if topic.topic_id == ZERO_TOPIC_ID else format_topic_id(topic.topic_id)


def _missing(subscription: Subscription, found: Mapping[str, TopicNow]) -> list[str]:
    missing = [f"topic {topic}" for topic in subscription.topics if topic not in found]
    for topic, partitions in subscription.partitions:
        if topic not in found:
            missing.append(f"topic {topic}")
        else:
            missing += [
                f"partition {TopicPartition(topic, partition)}"
                for partition in sorted(set(partitions) - found[topic].partitions)
            ]
    return missing


class _Kept:
    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.users = 0


# By process and cluster; the one that was used last comes last.
_kept: dict[tuple[int, Connect], _Kept] = {}


@contextmanager
def kept_client(connect: Connect) -> Iterator[KafkaClient]:
    """The client of this process for a cluster; a fork does not share its parent's sockets. Some
    stay open for the next task; one that is in use is never closed to make room."""
    key = (os.getpid(), connect)
    kept = _kept.pop(key, None)
    if kept is None:
        _make_room()
        kept = _Kept(KafkaClient(connect))
    _kept[key] = kept
    kept.users += 1
    try:
        yield kept.client
    finally:
        kept.users -= 1


def _make_room() -> None:
    here = os.getpid()
    for key, kept in list(_kept.items()):
        if key[0] != here:
            del _kept[key]  # the parent's
        elif len(_kept) >= _MAX_CLIENTS and not kept.users:
            del _kept[key]
            kept.client.close()
