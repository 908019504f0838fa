"""The small text files of a data folder (CheckpointFile, LeaderEpochCheckpointFile,
PartitionMetadataFile, BrokerMetadataCheckpoint): one encoder and one decoder each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition, format_topic_id, parse_topic_id

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class CheckpointDamaged(Exception):
    """A checkpoint file whose version, count or lines are not as Kafka writes them."""


def _encode_lines(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join(["0", str(len(body)), *body, ""]).encode()


def _decode_lines(data: bytes, fields: int) -> list[list[str]]:
    if not data:
        return []
    try:
        lines = data.decode().splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError) as error:
        raise CheckpointDamaged(f"malformed head: {error}") from None
    if version != 0:
        raise CheckpointDamaged(f"unrecognised version {version}")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != count:
        raise CheckpointDamaged(f"expected {count} entries, found {len(entries)}")
    if any(len(entry) != fields for entry in entries):
        raise CheckpointDamaged("malformed line")
    return entries


def _long(text: str) -> int:
    """As Java reads a long."""
    number = int(text)
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{text} has more than 64 bits")
    return number


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode_lines(
        f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()
    )


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): _long(offset)
            for topic, partition, offset in _decode_lines(data, 3)
        }
    except ValueError as error:
        raise CheckpointDamaged(f"malformed number: {error}") from None


def encode_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode_lines(f"{epoch} {start}" for epoch, start in entries)


def decode_epochs(data: bytes) -> list[tuple[int, int]]:
    try:
        entries = [(int(epoch), _long(start)) for epoch, start in _decode_lines(data, 2)]
    except ValueError as error:
        raise CheckpointDamaged(f"malformed number: {error}") from None
    for (epoch, start), (next_epoch, next_start) in pairwise([(-1, -1), *entries]):
        if next_epoch <= epoch or next_start <= start:
            raise CheckpointDamaged(f"epoch {next_epoch} from {next_start} after {epoch}, {start}")
    return entries


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    return f"version: 0\ntopic_id: {format_topic_id(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> TopicId | None:
    """The topic's id; None for an empty file, which a crash right after creation can leave."""
    if not data.strip(b"\0"):
        return None
    try:
        fields = dict(line.split(": ", 1) for line in data.decode().splitlines())
        if fields["version"].strip() != "0":
            raise CheckpointDamaged(f"unrecognised version {fields['version']}")
        topic_id = parse_topic_id(fields["topic_id"].strip())
    except (UnicodeDecodeError, ValueError, KeyError) as error:
        raise CheckpointDamaged(f"malformed {PARTITION_METADATA}: {error}") from None
    if topic_id == ZERO_TOPIC_ID:
        raise CheckpointDamaged(f"invalid topic id in {PARTITION_METADATA}")
    return topic_id


def encode_properties(values: Mapping[str, str], comment: str) -> bytes:
    lines = ["#", f"#{comment}", *(f"{name}={value}" for name, value in values.items()), ""]
    return "\n".join(lines).encode()


def decode_properties(data: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    for raw in data.decode("utf-8", "replace").splitlines():
        line = raw.strip()
        if line and not line.startswith(("#", "!")):
            name, _, value = line.partition("=")
            values[name.strip()] = value.strip()
    return values
