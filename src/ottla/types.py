"""Small value types shared by every package."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import NamedTuple

# Topic ids travel as 16 raw bytes; Kafka prints them as URL-safe base64 without padding.
TopicId = bytes
ZERO_TOPIC_ID: TopicId = bytes(16)
# Kafka's Uuid class reserves the zero id and the one after it (METADATA_TOPIC_ID).
_RESERVED_TOPIC_IDS = (ZERO_TOPIC_ID, bytes(15) + b"\x01")


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka does, `topic-0`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicPartitionReplica(NamedTuple):
    """One replica of one partition, as the controller's state machine sees it."""

    topic: str
    partition: int
    broker_id: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return f"[Topic={self.topic},Partition={self.partition},Replica={self.broker_id}]"


class Endpoint(NamedTuple):
    """Where a broker listens: listener name, host, port and the security protocol's name."""

    listener: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.listener}://{self.host}:{self.port}"


def format_topic_id(topic_id: TopicId) -> str:
    """The 22-character form that Kafka shows and stores in znodes."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def parse_topic_id(text: str) -> TopicId:
    """The inverse of `format_topic_id`; raises ValueError for anything else."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a 16-byte id in URL-safe base64")
    return raw


def random_topic_id(random_bytes: Callable[[int], bytes]) -> TopicId:
    """A random version-4 UUID whose text does not start with '-' (Kafka's Uuid.randomUuid)."""
    while True:
        raw = bytearray(random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        topic_id = bytes(raw)
        if topic_id not in _RESERVED_TOPIC_IDS and not format_topic_id(topic_id).startswith("-"):
            return topic_id
