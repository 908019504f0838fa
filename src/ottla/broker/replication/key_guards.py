"""Leaders of a topic that was resized refuse records whose key lives in another partition now.

A producer has chosen a record's partition by the number of partitions that it knew; after a resize
what it still holds would break the order of that key (ADR 53). Whoever sends such a batch is first
answered NOT_LEADER_OR_FOLLOWER, which makes it ask for the topic's shape, and from then on
INVALID_RECORD with the records named (KIP-467): a batch is never put into another partition by its
producer, so that it has to fail, and to be known to have failed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.inner import plain_records
from ottla.storage.append.record_rules import MOST_RECORD_ERRORS, RecordError, RecordsRejected
from ottla.storage.append.steps import Pause
from ottla.topics.key_guard import KeyGuard, parse
from ottla.wire.records import iter_plain_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.runtime import Clock
    from ottla.storage.append.leader import Checked
    from ottla.storage.append.steps import Steps
    from ottla.storage.log.log import Log
    from ottla.types import TopicPartition

# Bounds what is remembered of clients. One that is forgotten is sent for metadata once more.
_MOST_CLIENTS = 10_000
# In this time a client that was sent for metadata has asked: Java and librdkafka wait 100 ms before
# they try again. For as long its open batch takes records of the new shape, which fail with it.
_ASKING_MS = 300
_STEP_RECORDS = 500


class Sender(NamedTuple):
    """Who sent a batch, as far as a leader can tell one producer from another."""

    host: str = ""
    client_id: str | None = None


class KeyGuards:
    """One per broker. `partition_count` is what its clients are told of a topic."""

    def __init__(self, clock: Clock, partition_count: Callable[[str], int]) -> None:
        self._clock = clock
        self._partition_count = partition_count
        # Until when a producer may be asking for metadata, by topic, its guard and the sender.
        self._sent: dict[tuple[str, str, Sender, int], float] = {}

    def standing(self, log: Log) -> KeyGuard | None:
        """The guard of a log's topic, None when its time is over."""
        guard = parse(log.settings.ottla_key_guard)
        if guard is None or self._clock.now_ms() < guard.until_ms:
            return guard
        # From now on batches are as plain as they were before.
        log.use_settings(replace(log.settings, ottla_key_guard=""))
        return None

    def misplaced(self, log: Log, guard: KeyGuard, checked: Checked) -> Steps[list[RecordError]]:
        """The records of batches that belong to other partitions."""
        return _misplaced(log.tp, guard, checked, self._partition_count(log.tp.topic))

    def refuse(
        self, log: Log, checked: Checked, errors: list[RecordError], sender: Sender
    ) -> KafkaError:
        """What the sender of misplaced records is told."""
        if len(self._sent) >= _MOST_CLIENTS:
            self._sent.clear()
        now = self._clock.monotonic_ms()
        guard, producer_id = log.settings.ottla_key_guard, checked.batches[0].header.producer_id
        producer = log.tp.topic, guard, sender, producer_id
        if now < self._sent.setdefault(producer, now + _ASKING_MS):
            # It may choose partitions by an old number of them.
            return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return RecordsRejected(ErrorCode.INVALID_RECORD, errors)


def _misplaced(
    tp: TopicPartition, guard: KeyGuard, checked: Checked, partition_count: int
) -> Steps[list[RecordError]]:
    errors: list[RecordError] = []
    for batch in checked.batches:
        plain, _ = yield from plain_records(tp, batch)
        for number, record in enumerate(iter_plain_records(plain, batch.header)):
            if number % _STEP_RECORDS == 0:
                yield Pause.SHORT
            if not guard.allows(record.key, tp.partition, partition_count):
                text = f"The key belongs to another of {partition_count} partitions of {tp.topic}."
                errors.append(RecordError(number, text))
                if len(errors) >= MOST_RECORD_ERRORS:
                    return errors
    return errors
