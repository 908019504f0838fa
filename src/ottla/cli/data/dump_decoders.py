"""Records of the coordinators' topics in words, as DumpLogSegments of Kafka 2.8 prints them with
`--offsets-decoder` and `--transaction-log-decoder`."""

from __future__ import annotations

import json

from ottla.client.groups.protocol import CONSUMER, decode_assignment
from ottla.coordinator.groups.records import (
    GroupMember,
    OffsetKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from ottla.coordinator.transactions import records
from ottla.coordinator.transactions.transaction import STATE_NAMES
from ottla.coordinator.versioned import RecordFormatError

_DELETED = "<DELETE>"


def offsets(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """A record of `__consumer_offsets`: a commit, or a group."""
    decoded = None if key is None else decode_key(key)
    if decoded is None:
        raise RecordFormatError("a record is neither a commit nor a group")
    if isinstance(decoded, OffsetKey):
        group_id, partition = decoded
        words = f"offset_commit::group={group_id},partition={partition}"
        return words, _DELETED if value is None else _commit(value)
    words = f"group_metadata::group={decoded.group_id}"
    return words, _DELETED if value is None else _group(value)


def _commit(value: bytes) -> str:
    commit = decode_offset_value(value)
    return f"offset={commit.offset}" + (f",metadata={commit.metadata}" if commit.metadata else "")


def _group(value: bytes) -> str:
    group = decode_group_value(value)
    is_consumer = group.protocol_type == CONSUMER
    members = ",".join(_member(member, is_consumer=is_consumer) for member in group.members)
    shown = {
        "protocolType": group.protocol_type,
        "protocol": group.protocol,
        "generationId": group.generation,
        "assignment": f"{{{members}}}",
    }
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))


def _member(member: GroupMember, *, is_consumer: bool) -> str:
    if not is_consumer:
        return f"{member.member_id}={member.assignment.hex()}"
    partitions = map(str, decode_assignment(member.assignment))
    return f"{member.member_id}=[{', '.join(partitions)}]"


def transactions(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """A record of `__transaction_state`."""
    transactional_id = None if key is None else records.decode_key(key)
    if transactional_id is None:
        raise RecordFormatError("a record is not about a transactional id")
    words = f"transaction_metadata::transactionalId={transactional_id}"
    if value is None:
        return words, _DELETED
    transaction = records.decode_value(transactional_id, value)
    partitions = ",".join(map(str, sorted(transaction.partitions)))
    return words, (
        f"producerId:{transaction.producer_id},producerEpoch:{transaction.producer_epoch},"
        f"state={STATE_NAMES[transaction.state]},partitions=[{partitions}],"
        f"txnLastUpdateTimestamp={transaction.update_ms},txnTimeoutMs={transaction.timeout_ms}"
    )
