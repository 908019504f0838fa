"""Positions of consumer groups, carried over to a clone by plain commits."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin.groups import GroupAdmin
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines.copy.translation import Carried, Translation
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

# Such a group has members over there, who commit for themselves.
_ACTIVE = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)
# Notes of Spark's sinks, which are no positions of readers.
_NOT_READERS = "ottla-sink-"
# Questions about groups that are under way together.
_AT_ONCE = 50


class GroupOutcome(NamedTuple):
    """`trouble` says why a group's positions were not carried over."""

    group: str
    again: int = 0
    trouble: str | None = None


async def committed(admin: Admin, topic: str) -> dict[str, dict[int, int]]:
    """By group: its positions in the topic."""
    groups = GroupAdmin(admin.cluster)
    listed = [listing.group_id for listing in await groups.list_groups()]
    names = [name for name in listed if not name.startswith(_NOT_READERS)]
    found: dict[str, dict[int, int]] = {}
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        answers = await asyncio.gather(*(groups.committed_offsets(name) for name in some))
        for name, offsets in zip(some, answers, strict=True):
            own = {tp.partition: at for tp, at in offsets.items() if tp.topic == topic}
            if own:
                found[name] = own
    return found


async def carry(
    admin: Admin,
    topic: str,
    positions: Mapping[str, Mapping[int, int]],
    translation: Translation,
) -> list[GroupOutcome]:
    groups = GroupAdmin(admin.cluster)
    outcomes = []
    for group, offsets in sorted(positions.items()):
        carried = translation.carry(offsets)
        trouble = await _commit(groups, group, topic, carried)
        outcomes.append(GroupOutcome(group, carried.again, trouble))
    return outcomes


async def _commit(groups: GroupAdmin, group: str, topic: str, carried: Carried) -> str | None:
    wanted = {TopicPartition(topic, p): at for p, at in carried.offsets.items()}
    try:
        await groups.commit_offsets(group, wanted)
    except KafkaError as error:
        if error.code in _ACTIVE:
            return "it has members, and only they commit its positions"
        return str(error)
    return None
