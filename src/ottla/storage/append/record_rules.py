"""Rules of a topic for single records (LogValidator.validateRecord, KIP-467).

A key where it is compacted, a time near the broker's, a time that is the producer's own.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire.native_walk import Walk
from ottla.wire.records import LOG_APPEND_TIME, BatchHeader, Record

# Named in an answer. Kafka names all of them; a batch of some kilobytes may hold a million.
MOST_RECORD_ERRORS = 1000
_LONG_MAX = 0x7FFFFFFFFFFFFFFF
_NO_TIME = -1


class RecordError(NamedTuple):
    batch_index: int
    message: str | None


class RecordsRejected(KafkaError):
    """A batch whose records break a rule; names the records (KIP-467)."""

    def __init__(self, code: ErrorCode, errors: list[RecordError]) -> None:
        super().__init__(
            code,
            "One or more records have been rejected due to invalid timestamp"
            if code is ErrorCode.INVALID_TIMESTAMP
            else "One or more records have been rejected",
        )
        self.record_errors = errors


def bounds_timestamps(settings: LogConfig) -> bool:
    return (
        settings.message_timestamp_type != "LogAppendTime"
        and settings.message_timestamp_difference_max_ms < _LONG_MAX
    )


class RecordRules:
    """What one batch is held to, and the records that break it."""

    def __init__(
        self,
        tp: TopicPartition,
        settings: LogConfig,
        now_ms: int,
        *,
        has_append_time: bool = False,
        record_kind: str = "DefaultRecord",
        keyless_bytes: int = 0,
    ) -> None:
        self._tp = tp
        self._compacted = settings.compact
        self._bounded = bounds_timestamps(settings)
        self._difference_ms = settings.message_timestamp_difference_max_ms
        self._now_ms = now_ms
        self._has_append_time = has_append_time
        # How Kafka calls a record, and the size of a key that is not there: it shows in texts.
        self._kind = record_kind
        self._keyless_bytes = keyless_bytes
        self._noted: list[RecordError] = []
        self._is_ill_timed = False

    @staticmethod
    def of_batch(
        tp: TopicPartition,
        settings: LogConfig,
        now_ms: int,
        header: BatchHeader,
        *,
        is_skimmed: bool,
    ) -> RecordRules:
        """`is_skimmed`: Kafka skips keys and values of a compressed batch that stays as it is."""
        return RecordRules(
            tp,
            settings,
            now_ms,
            has_append_time=bool(header.attributes & LOG_APPEND_TIME),
            record_kind="PartialDefaultRecord" if is_skimmed else "DefaultRecord",
            keyless_bytes=-1 if is_skimmed else 0,
        )

    def may_be_broken(self, walk: Walk) -> bool:
        """Whether the records have to be looked at one by one."""
        earliest, latest = self._now_ms - self._difference_ms, self._now_ms + self._difference_ms
        return (
            self._has_append_time
            or (self._compacted and walk.is_keyless)
            or (self._bounded and not earliest <= walk.oldest <= walk.newest <= latest)
        )

    def note(self, number: int, record: Record) -> bool:
        """Looks at one record; True where as many are noted as are named."""
        text = self._objection(record)
        if text is not None:
            self._noted.append(RecordError(number, text))
        return len(self._noted) >= MOST_RECORD_ERRORS

    def _objection(self, record: Record) -> str | None:
        if self._compacted and record.key is None:
            return (
                f"Compacted topic cannot accept message without key in topic partition {self._tp}."
            )
        time, now, allowed = record.timestamp, self._now_ms, self._difference_ms
        if self._bounded and time != _NO_TIME and abs(time - now) > allowed:
            self._is_ill_timed = True
            return (
                f"Timestamp {time} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{now - allowed}, {now + allowed}]"
            )
        if self._has_append_time:
            self._is_ill_timed = True
            key = self._keyless_bytes if record.key is None else len(record.key)
            value = self._keyless_bytes if record.value is None else len(record.value)
            return (
                f"Invalid timestamp type in message {self._kind}(offset={record.offset}, "
                f"timestamp={time}, key={key} bytes, value={value} bytes). Producer should not set "
                "timestamp type to LogAppendTime."
            )
        return None

    @property
    def has_noted(self) -> bool:
        return bool(self._noted)

    def raise_noted(self) -> None:
        """RecordsRejected where a record broke a rule."""
        if self._noted:
            code = ErrorCode.INVALID_TIMESTAMP if self._is_ill_timed else ErrorCode.INVALID_RECORD
            raise RecordsRejected(code, self._noted)
