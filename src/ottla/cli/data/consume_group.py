"""`ottla consume --group`: as a member of a consumer group, which goes on where it stopped.

What was printed is committed every few seconds and at the end; where the end comes by force,
records since the last commit are read again.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.client.fetch import RecordReader
from ottla.client.groups.member import Member, Rebalanced
from ottla.client.offsets import EARLIEST, LATEST, list_offsets
from ottla.errors import OttlaError
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.fetch import FetchedRecord

COMMIT_INTERVAL_S = 5.0
# A member without partitions looks this often whether it has some by now.
_IDLE_S = 0.5
_LEAVE_S = 5.0

Print = Callable[[list["FetchedRecord"]], Awaitable[None]]


class NotCommitted(OttlaError):
    """The group took this member's partitions before its last offsets were committed."""


class GroupReading(NamedTuple):
    """What a group is asked to read; it begins at an end of the log where it never was before."""

    group_id: str
    topic: str
    from_beginning: bool
    follow: bool
    max_messages: int | None
    timeout_ms: int


class GroupReader:
    """Reads for a group until the end of its partitions, or as long as it follows."""

    def __init__(self, cluster: Cluster, wanted: GroupReading, show: Print) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._show = show
        self._member = Member(cluster, wanted.group_id, [wanted.topic])
        self._left = wanted.max_messages
        # Where every partition ended when this began: without `follow` nothing later is read.
        self._ends: dict[TopicPartition, int] = {}
        self._printed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._next_commit = 0.0
        self._is_stopping = False

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        # `kill` and the end of a container are no reason to read records twice.
        with suppress(RuntimeError, ValueError):  # not in the main thread
            loop.add_signal_handler(signal.SIGTERM, self._stop)
        try:
            while not await self._read_generation():
                pass
        finally:
            await self._finish()

    def _stop(self) -> None:
        self._is_stopping = True

    async def _read_generation(self) -> bool:
        """Until the partitions are shared out anew; true where nothing is left to do."""
        assigned = await self._member.join()
        if not assigned and not self._wanted.follow:
            click.echo(
                f"other members of {self._wanted.group_id} have all partitions of "
                f"{self._wanted.topic}",
                err=True,
            )
        positions = await self._positions(assigned)
        try:
            reader = RecordReader(
                self._cluster,
                positions,
                timeout_ms=self._wanted.timeout_ms,
                least_epochs=self._member.committed_epochs,
            )
            await self._read(reader)
        except Rebalanced:
            with suppress(Rebalanced):  # too late: whoever gets them next reads them again
                await self._commit()
            return False
        return True

    async def _positions(self, assigned: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to go on: what was committed, as long as it is in the log."""
        timeout_ms = self._wanted.timeout_ms
        self._committed = await self._member.committed(assigned)
        begins = await list_offsets(self._cluster, assigned, EARLIEST, timeout_ms=timeout_ms)
        ends = await list_offsets(self._cluster, assigned, LATEST, timeout_ms=timeout_ms)
        self._ends = ends | self._ends
        fresh = begins if self._wanted.from_beginning else ends
        self._printed = {
            tp: at if begins[tp] <= (at := self._committed.get(tp, -1)) <= ends[tp] else fresh[tp]
            for tp in assigned
        }
        self._next_commit = asyncio.get_running_loop().time() + COMMIT_INTERVAL_S
        return dict(self._printed)

    async def _read(self, reader: RecordReader) -> None:
        loop = asyncio.get_running_loop()
        follow = self._wanted.follow
        while not self._is_stopping:
            if not follow:
                for tp in [tp for tp, at in reader.positions.items() if at >= self._ends[tp]]:
                    del reader.positions[tp]
                if not reader.positions:
                    return
            self._member.check()
            if reader.positions:
                await self._print(reader, await reader.poll())
                if self._left == 0:
                    return
            else:
                await asyncio.sleep(_IDLE_S)
            if loop.time() >= self._next_commit:
                await self._commit()

    async def _print(self, reader: RecordReader, found: list[FetchedRecord]) -> None:
        if not self._wanted.follow:
            found = [record for record in found if record.offset < self._ends[record.partition]]
        chosen = found if self._left is None else found[: self._left]
        if chosen:
            await self._write(chosen)
        if self._left is not None:
            self._left -= len(chosen)
        if len(chosen) == len(found):
            # Also past what is not printed: markers of transactions.
            self._printed |= {
                tp: at if self._wanted.follow else min(at, self._ends[tp])
                for tp, at in reader.positions.items()
            }

    async def _write(self, chosen: list[FetchedRecord]) -> None:
        writing = asyncio.ensure_future(self._show(chosen))
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            # Ctrl-C amid a write: what the reader has by now is not to be read again.
            await asyncio.wait({writing}, timeout=_LEAVE_S)
            if writing.done() and writing.exception() is None:
                self._note(chosen)
            raise
        self._note(chosen)

    def _note(self, printed: list[FetchedRecord]) -> None:
        self._printed |= {record.partition: record.offset + 1 for record in printed}

    async def _commit(self) -> None:
        self._next_commit = asyncio.get_running_loop().time() + COMMIT_INTERVAL_S
        new = {tp: at for tp, at in self._printed.items() if self._committed.get(tp) != at}
        await self._member.commit(new)
        self._committed |= new

    async def _finish(self) -> None:
        """Commits what was printed and leaves, also after Ctrl-C; in bounded time."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                try:
                    await self._commit()
                except Rebalanced:
                    raise NotCommitted(
                        f"the group {self._wanted.group_id} was rebalanced before the last offsets "
                        "were committed: it will read these records again"
                    ) from None
                finally:
                    await self._member.leave()
        except TimeoutError:
            raise NotCommitted(
                f"the coordinator of {self._wanted.group_id} does not answer: the last offsets may "
                "not be committed"
            ) from None
