"""What a member of a group prints is what it commits; group and log are stand-ins."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.cli.data import consume_group
from ottla.cli.data.consume_group import GroupReader, GroupReading, NotCommitted
from ottla.client.fetch import FetchedRecord
from ottla.client.groups.member import Rebalanced
from ottla.client.offsets import EARLIEST
from ottla.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
WAIT_S = 10.0


class World:
    """A log of two partitions, and the group that reads it."""

    def __init__(self) -> None:
        self.begins = {T0: 0, T1: 0}
        self.ends = {T0: 3, T1: 3}
        self.committed: dict[TopicPartition, int] = {}
        self.shares: list[list[TopicPartition]] = [[T0, T1]]  # one for each time it joins
        self.rebalances_after_polls: list[int] = []
        self.epoch = 7  # of the leaders under which offsets were committed
        self.least_epochs: dict[TopicPartition, int] = {}  # what the last reader was given
        self.refuses_commits = False
        self.polls = 0
        self.joins = 0
        self.has_left = False


class StandInMember:
    def __init__(self, world: World, *_: Any) -> None:
        self._world = world
        self.committed_epochs: dict[TopicPartition, int] = {}

    def check(self) -> None:
        after = self._world.rebalances_after_polls
        if after and self._world.polls >= after[0]:
            after.pop(0)
            raise Rebalanced("")

    async def join(self) -> list[TopicPartition]:
        self._world.joins += 1
        return self._world.shares.pop(0)

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        known = {tp: at for tp, at in self._world.committed.items() if tp in partitions}
        self.committed_epochs = dict.fromkeys(known, self._world.epoch)
        return known

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._world.refuses_commits and offsets:
            raise Rebalanced("")
        self._world.committed |= offsets

    async def leave(self) -> None:
        self._world.has_left = True


class StandInReader:
    """Two records of each partition at a time."""

    def __init__(self, world: World, positions: Mapping[TopicPartition, int]) -> None:
        self._world = world
        self.positions = dict(positions)

    async def poll(self) -> list[FetchedRecord]:
        await asyncio.sleep(0)
        self._world.polls += 1
        found = []
        for tp, at in self.positions.items():
            offsets = range(at, min(at + 2, self._world.ends[tp]))
            found += [
                FetchedRecord(tp, n, 0, None, f"{tp.partition}:{n}".encode()) for n in offsets
            ]
            self.positions[tp] = at + len(offsets)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    async def list_offsets(
        _: object, partitions: Sequence[TopicPartition], timestamp: int, *, timeout_ms: float
    ) -> dict[TopicPartition, int]:
        found = world.begins if timestamp == EARLIEST else world.ends
        return {tp: found[tp] for tp in partitions}

    monkeypatch.setattr(consume_group, "list_offsets", list_offsets)
    monkeypatch.setattr(consume_group, "Member", lambda *_: StandInMember(world))

    def open_reader(
        _: object,
        positions: Mapping[TopicPartition, int],
        *,
        timeout_ms: float,
        least_epochs: Mapping[TopicPartition, int],
    ) -> StandInReader:
        world.least_epochs = dict(least_epochs)
        return StandInReader(world, positions)

    monkeypatch.setattr(consume_group, "RecordReader", open_reader)
    return world


class Shown:
    """What came out; without `may_end` a write does not end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, found: list[FetchedRecord]) -> None:
        self.lines += [(record.value or b"").decode() for record in found]
        self.begun.set()
        await self.may_end.wait()


def reading(**given: Any) -> GroupReading:
    usual = {"from_beginning": True, "follow": False, "max_messages": None, "timeout_ms": 1000}
    return GroupReading("g", "t", **(usual | given))


async def read(**given: Any) -> list[str]:
    shown = Shown()
    async with asyncio.timeout(WAIT_S):
        await GroupReader(None, reading(**given), shown).run()  # type: ignore[arg-type]
    return shown.lines


async def test_up_to_the_end(world: World) -> None:
    world.committed = {T1: 2}
    assert await read() == ["0:0", "0:1", "1:2", "0:2"]
    assert world.committed == {T0: 3, T1: 3} and world.has_left
    assert world.least_epochs == {T1: 7}  # KIP-320: no leader older than the offset is asked


async def test_as_many_as_were_asked_for(world: World) -> None:
    assert await read(max_messages=3) == ["0:0", "0:1", "1:0"]
    assert world.committed == {T0: 2, T1: 1}
    world.shares = [[T0, T1]]
    assert await read(max_messages=1) == ["0:2"]
    assert world.committed == {T0: 3, T1: 1}


async def test_where_the_group_never_was(world: World) -> None:
    assert await read(from_beginning=False) == []
    assert world.committed == world.ends, "what comes now is not missed the next time"


async def test_what_was_committed_is_not_in_the_log_any_more(world: World) -> None:
    world.committed = {T0: 99, T1: 0}
    world.begins[T1] = 2
    assert await read() == ["0:0", "0:1", "1:2", "0:2"]


async def test_a_rebalance(world: World) -> None:
    world.shares = [[T0, T1], [T1]]
    world.rebalances_after_polls = [1]
    assert await read() == ["0:0", "0:1", "1:0", "1:1", "1:2"]
    assert world.committed == {T0: 2, T1: 3}
    assert world.joins == 2


async def test_a_commit_that_comes_too_late_is_said(world: World) -> None:
    world.refuses_commits = True
    with pytest.raises(NotCommitted, match="will read these records again"):
        await read()
    assert world.has_left


async def test_others_have_everything(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.shares = [[]]
    assert await read() == []
    assert capsys.readouterr().err == "other members of g have all partitions of t\n"


async def test_a_write_that_is_interrupted_counts(world: World) -> None:
    shown = Shown()
    shown.may_end.clear()
    reader = GroupReader(None, reading(follow=True), shown)  # type: ignore[arg-type]
    task = asyncio.ensure_future(reader.run())
    async with asyncio.timeout(WAIT_S):
        await shown.begun.wait()
        task.cancel()
        await asyncio.sleep(0)
        shown.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert world.committed == {T0: 2, T1: 2} and world.has_left
