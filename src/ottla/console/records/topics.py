"""What a topic holds, and which part of it a page wants."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.cluster import response_error
from ottla.client.offsets import EARLIEST, LATEST, try_list_offsets
from ottla.console.web.failures import invalid
from ottla.errors import ErrorCode, KafkaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

# That one page merges.
MAX_PARTITIONS = 1000
_LIST_MS = 4000


class Held(NamedTuple):
    """The offsets that a log holds: from `start` up to, not including, `end`."""

    start: int
    end: int


class Bounds(NamedTuple):
    held: dict[TopicPartition, Held]
    notes: list[str]


async def partition_count(cluster: Cluster, topic: str) -> int:
    """Raises KafkaError for a topic that is not there."""
    answer = await cluster.metadata([topic], timeout_ms=_LIST_MS)
    for found in answer.topics:
        if found.error_code:
            error = response_error(found.error_code)
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(error.code, f"There is no topic {topic}.")
            raise error
        return len(found.partitions)
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {topic}.")


def parse_partitions(text: str, count: int) -> list[int]:
    """`0,3`, or nothing for all."""
    if not text.strip():
        if count > MAX_PARTITIONS:
            raise invalid(
                f"The topic has {count:,} partitions: choose up to {MAX_PARTITIONS:,} of them.",
                "partitions",
            )
        return list(range(count))
    chosen = []
    for word in text.split(","):
        if not re.fullmatch(r"\s*\d{1,9}\s*", word, re.ASCII):
            raise invalid("Numbers of partitions, separated by commas.", "partitions")
        number = int(word)
        if number >= count:
            raise invalid(f"The last partition is {count - 1}.", "partitions")
        chosen.append(number)
    if len(set(chosen)) > MAX_PARTITIONS:
        raise invalid(f"Choose up to {MAX_PARTITIONS:,} partitions.", "partitions")
    return sorted(set(chosen))


def parse_cursor(text: str, count: int) -> dict[int, int]:
    """`0:120,1:7`, as a page before this one gave it."""
    cursor = {}
    for word in text.split(","):
        match = re.fullmatch(r"(\d{1,9}):(\d{1,19})", word, re.ASCII)
        if match is None or int(match[1]) >= count:
            raise invalid("This is no cursor of an earlier answer.", "cursor")
        cursor[int(match[1])] = int(match[2])
    return cursor


def cursor_text(cursor: Mapping[int, int]) -> str | None:
    return ",".join(f"{p}:{offset}" for p, offset in sorted(cursor.items())) or None


async def bounds(
    cluster: Cluster, topic: str, partitions: Iterable[int], *, committed_only: bool = False
) -> Bounds:
    """Partitions that cannot be asked are left out with a note; raises where none can."""
    wanted = [TopicPartition(topic, partition) for partition in partitions]
    starts = await try_list_offsets(cluster, wanted, EARLIEST, timeout_ms=_LIST_MS)
    sound = [tp for tp in wanted if not isinstance(starts[tp], KafkaError)]
    ends = await try_list_offsets(
        cluster, sound, LATEST, timeout_ms=_LIST_MS, read_committed=committed_only
    )
    held: dict[TopicPartition, Held] = {}
    notes = []
    for tp in wanted:
        start, end = starts[tp], ends.get(tp, 0)
        if isinstance(start, KafkaError) or isinstance(end, KafkaError):
            error = start if isinstance(start, KafkaError) else end
            notes.append(f"Partition {tp.partition} cannot be read: {error}")
            if len(wanted) == len(notes) and isinstance(error, KafkaError):
                raise error
            continue
        held[tp] = Held(start, end)
    return Bounds(held, notes)


async def at_time(
    cluster: Cluster, held: Mapping[TopicPartition, Held], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset of that time or later; the end where there is none."""
    found = await try_list_offsets(cluster, held, max(timestamp_ms, 0), timeout_ms=_LIST_MS)
    answer = {}
    for tp, (_, end) in held.items():
        offset = found[tp]
        if isinstance(offset, KafkaError):
            raise offset
        answer[tp] = offset if offset >= 0 else end
    return answer


def windows(
    held: Mapping[TopicPartition, Held],
    *,
    newest: bool,
    at: Mapping[TopicPartition, int] | None = None,
    cursor: Mapping[int, int] | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """What a walk has before it. `at` is where it begins: inclusive upwards, exclusive downwards;
    so is `cursor`, and partitions that it does not name are done."""
    found = {}
    for tp, (start, end) in held.items():
        begin = (cursor or {}).get(tp.partition, -1) if cursor is not None else None
        if begin is None and at is not None:
            begin = at[tp]
        if begin is None:
            found[tp] = (start, end)
        elif begin < 0:
            continue
        elif newest:
            found[tp] = (start, max(start, min(end, begin)))
        else:
            found[tp] = (min(end, max(start, begin)), end)
    return found
