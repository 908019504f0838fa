"""What a reset would commit for the partitions of a group, on any cluster (KIP-122)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.client.groups.resets import Range, Scenario, shifted, within
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

Plan = dict[TopicPartition, int]


class ResetPlanner:
    """`warnings` tells of offsets that were moved into what the log holds."""

    def __init__(self, cluster: Cluster, *, timeout_ms: float) -> None:
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self.warnings: list[str] = []

    async def plan(
        self,
        partitions: Sequence[TopicPartition],
        committed: Mapping[TopicPartition, int],
        scenario: Scenario,
        *,
        number: int = 0,
        timestamp_ms: int = 0,
    ) -> Plan:
        """`number` is the offset or the shift; `timestamp_ms` is for the scenarios with a time."""
        match scenario:
            case Scenario.TO_EARLIEST:
                return await self._at(partitions, EARLIEST)
            case Scenario.TO_LATEST:
                return await self._at(partitions, LATEST)
            case Scenario.TO_OFFSET:
                return await self.in_range(dict.fromkeys(partitions, number))
            case Scenario.SHIFT_BY:
                return await self.in_range(shifted(partitions, committed, number))
            case Scenario.TO_CURRENT:
                found = {tp: committed.get(tp, -1) for tp in partitions}
            case _:
                found = await self._at(partitions, timestamp_ms)
        # Nothing committed, or no record that young: the end.
        ends = await self._at([tp for tp, offset in found.items() if offset < 0], LATEST)
        return found | ends

    async def in_range(self, wanted: Plan) -> Plan:
        """The offsets moved into what each log holds."""
        starts = await self._at(list(wanted), EARLIEST)
        ends = await self._at(list(wanted), LATEST)
        plan, warnings = within(wanted, {tp: Range(starts[tp], ends[tp]) for tp in wanted})
        self.warnings += warnings
        return plan

    async def _at(self, partitions: Sequence[TopicPartition], timestamp: int) -> Plan:
        return await list_offsets(self._cluster, partitions, timestamp, timeout_ms=self._timeout_ms)
