"""The records of `__consumer_offsets`: the only place that encodes and decodes them.

Keys and values start with an int16 version, followed by a message of that version
(OffsetCommitKey/Value, GroupMetadataKey/Value). It writes key versions 1 (offset) and 2 (group),
offset value 3, or 1 where the commit named a retention time, and group value 3; all older ones
are read. The head of a consumer's subscription (ConsumerProtocolSubscription) is read here too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ottla.coordinator.versioned import (
    VERSION_BYTES,
    RecordFormatError,
    encode_versioned,
    read_version,
)
from ottla.types import TopicPartition
from ottla.wire import messages as m
from ottla.wire.codec import WireError

_GROUP_KEY_VERSION = 2
_OFFSET_KEY_VERSION = 1
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_VERSION_WITH_RETENTION = 1
_GROUP_VALUE_VERSION = 3
_NO_TIMESTAMP = -1
_LONGEST_TEXT_BYTES = 0x7FFF


class OffsetKey(NamedTuple):
    group_id: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    group_id: str


class CommittedOffset(NamedTuple):
    """A commit; `expire_timestamp_ms` only where the client asked for a retention time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None


class GroupMember(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupValue(NamedTuple):
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int | None
    members: tuple[GroupMember, ...]


def encode_offset_key(group_id: str, partition: TopicPartition) -> bytes:
    topic, number = partition
    key = m.OffsetCommitKey(group=group_id, topic=topic, partition=number)
    return encode_versioned(key, _OFFSET_KEY_VERSION)


def encode_group_key(group_id: str) -> bytes:
    return encode_versioned(m.GroupMetadataKey(group=group_id), _GROUP_KEY_VERSION)


def decode_key(data: bytes) -> OffsetKey | GroupKey | None:
    """None for a key of a later Kafka (KIP-848 groups), which a classic coordinator skips."""
    version = read_version(data)
    try:
        if 0 <= version <= _OFFSET_KEY_VERSION:
            offset_key, _ = m.OffsetCommitKey.decode(data, version, VERSION_BYTES)
            partition = TopicPartition(offset_key.topic, offset_key.partition)
            return OffsetKey(offset_key.group, partition)
        if version == _GROUP_KEY_VERSION:
            return GroupKey(m.GroupMetadataKey.decode(data, version, VERSION_BYTES)[0].group)
    except WireError as error:
        raise RecordFormatError(f"key of version {version}: {error}") from error
    return None


def encode_offset_value(commit: CommittedOffset) -> bytes:
    value = m.OffsetCommitValue(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp_ms,
    )
    if commit.expire_timestamp_ms is None:
        return encode_versioned(value, _OFFSET_VALUE_VERSION)
    value.expire_timestamp = commit.expire_timestamp_ms
    value.leader_epoch = -1  # that version has no room for it
    return encode_versioned(value, _OFFSET_VALUE_VERSION_WITH_RETENTION)


class PreparedOffset:
    """For commits of one partition again and again: the key is made, and all of the value that
    does not change."""

    __slots__ = ("_pack", "_text", "key", "metadata", "partition")

    def __init__(self, group_id: str, partition: TopicPartition, metadata: str) -> None:
        self.partition = partition
        self.metadata = metadata
        self.key = encode_offset_key(group_id, partition)
        text = metadata.encode()
        if len(text) > _LONGEST_TEXT_BYTES:
            raise WireError(f"metadata of {len(text)} bytes is too long")
        self._text = len(text).to_bytes(2, "big") + text
        # Version, offset, leader epoch, metadata, time of the commit.
        self._pack: Callable[..., bytes] = struct.Struct(f">hqi{len(self._text)}sq").pack

    def value(self, offset: int, leader_epoch: int, timestamp_ms: int) -> bytes:
        return self._pack(_OFFSET_VALUE_VERSION, offset, leader_epoch, self._text, timestamp_ms)


def offset_entries(
    group_id: str, commits: Mapping[TopicPartition, CommittedOffset]
) -> list[tuple[bytes, bytes]]:
    """Keys and values of one group's commits."""
    return [
        (encode_offset_key(group_id, tp), encode_offset_value(commit))
        for tp, commit in commits.items()
    ]


def decode_offset_value(data: bytes) -> CommittedOffset:
    version = read_version(data)
    if not 0 <= version <= m.OffsetCommitValue.MAX_VERSION:
        raise RecordFormatError(f"offset value of unknown version {version}")
    try:
        value, _ = m.OffsetCommitValue.decode(data, version, VERSION_BYTES)
    except WireError as error:
        raise RecordFormatError(f"offset value of version {version}: {error}") from error
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if value.expire_timestamp == _NO_TIMESTAMP else value.expire_timestamp,
    )


def encode_group_value(value: GroupValue) -> bytes:
    stamp = _NO_TIMESTAMP if value.state_timestamp_ms is None else value.state_timestamp_ms
    message = m.GroupMetadataValue(
        protocol_type=value.protocol_type,
        generation=value.generation,
        protocol=value.protocol,
        leader=value.leader,
        current_state_timestamp=stamp,
        members=[
            m.GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in value.members
        ],
    )
    return encode_versioned(message, _GROUP_VALUE_VERSION)


def decode_group_value(data: bytes) -> GroupValue:
    version = read_version(data)
    if not 0 <= version <= m.GroupMetadataValue.MAX_VERSION:
        raise RecordFormatError(f"group value of unknown version {version}")
    try:
        value, _ = m.GroupMetadataValue.decode(data, version, VERSION_BYTES)
    except WireError as error:
        raise RecordFormatError(f"group value of version {version}: {error}") from error
    stamp = value.current_state_timestamp
    return GroupValue(
        value.protocol_type,
        value.generation,
        value.protocol,
        value.leader,
        None if stamp == _NO_TIMESTAMP else stamp,
        tuple(_group_member(member, version) for member in value.members),
    )


def _group_member(member: m.GroupMetadataValue.MemberMetadata, version: int) -> GroupMember:
    return GroupMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        # Version 0 knew one time-out for both.
        member.session_timeout if version == 0 else member.rebalance_timeout,
        member.session_timeout,
        member.subscription,
        member.assignment,
    )


def subscription_topics(subscription: bytes) -> list[str]:
    """The topics of a consumer's JoinGroup metadata. Every version starts like version 0, and
    some clients write a high number over an old form, so only that much is read."""
    if read_version(subscription) < 0:
        raise RecordFormatError("a subscription of a negative version")
    try:
        topics: list[str] = m.ConsumerProtocolSubscription.decode(subscription, 0, VERSION_BYTES)[
            0
        ].topics
    except WireError as error:
        raise RecordFormatError(f"a subscription that cannot be read: {error}") from error
    return topics
