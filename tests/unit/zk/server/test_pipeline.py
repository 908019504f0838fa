"""Writes that a client sends on without waiting share a sync; one that waits is never kept."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ottla.metadata.store import OPEN_ACL, EventType
from ottla.runtime import Runtime, SystemNetwork
from ottla.simulation.cluster import SimClock
from ottla.simulation.loop import SimulationLoop, run
from ottla.zk.server import journal as journal_module
from ottla.zk.server.engine import Engine
from ottla.zk.server.gathering import (
    WAIT_S,
)
from ottla.zk.server.pipeline import Outlet
from tests.support.zk.crash_disk import CrashDisk

SYNC_S = 0.0002
BETWEEN_SENDS_S = 0.0001


class Client(Outlet):
    """Notes what it is told, delivery by delivery."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self.engine = engine
        self.session = engine.open_local_session(self)
        self.deliveries: list[list[str]] = []
        self.events: list[str] = []
        self.pauses = 0
        self.is_paused = False
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def create(self, path: str) -> asyncio.Future[None]:
        made, _ = self.engine.create(self.session, (), path, b"", OPEN_ACL, 0)
        self.engine.pipeline.push(self, made)
        return self._waiting.setdefault(made, asyncio.get_running_loop().create_future())

    @property
    def answered(self) -> list[str]:
        return [path for delivery in self.deliveries for path in delivery]

    def deliver(self, items: list[str | None]) -> None:
        answers = [path for path in items if path is not None]
        self.deliveries.append(answers)
        for path in answers:
            self._waiting.pop(path).set_result(None)

    def pause(self) -> None:
        assert not self.is_paused
        self.is_paused = True
        self.pauses += 1

    def resume(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def notify(self, kind: EventType, path: str) -> None:
        self.events.append(path)
        self.engine.pipeline.push_event(self, None)

    def session_ended(self) -> None:
        raise AssertionError("no session ends here")


@pytest.fixture(autouse=True)
def _steady_disk(monkeypatch):
    """Every sync takes the same time; little is written ahead of the journal."""
    half = (SYNC_S, SYNC_S)
    monkeypatch.setattr("ottla.simulation.loop._QUICK_WORK_S", half)
    monkeypatch.setattr("ottla.simulation.loop._SLOW_WORK_SHARE", 0.0)
    monkeypatch.setattr(journal_module, "PREALLOCATED_BYTES", 1 << 14)
    monkeypatch.setattr(journal_module, "_ZEROS", bytes(1 << 12))


def in_virtual_time(
    disk: CrashDisk, story: Callable[[Engine], Awaitable[None]], *, to_its_end: bool = True
) -> float:
    """Tells the story to a store on `disk`; how long it took."""
    loop = SimulationLoop("1")
    runtime = Runtime(SimClock(loop), random.Random(1), SystemNetwork(), disk)  # type: ignore[arg-type]

    async def tell() -> float:
        engine = Engine(runtime, Path("/store"))
        await engine.start()
        begun = loop.time()
        await story(engine)
        took_s = loop.time() - begun
        if to_its_end:
            await engine.stop()
        return took_s

    return run(loop, tell())


async def send_on(client: Client, count: int) -> None:
    """One create after the other, each in a packet of its own, waiting for none."""
    pending = []
    for number in range(count):
        pending.append(client.create(f"/{number}"))
        await asyncio.sleep(BETWEEN_SENDS_S)
    await asyncio.gather(*pending)


async def one_by_one(client: Client, name: str, count: int, pause_s: float = 0.0) -> None:
    for number in range(count):
        await client.create(f"/{name}-{number}")
        await asyncio.sleep(pause_s)


def test_what_a_client_sends_on_is_synced_and_answered_in_large_groups():
    disk = CrashDisk()
    clients: list[Client] = []

    async def story(engine: Engine) -> None:
        clients.append(Client(engine))
        await send_on(clients[0], 600)

    in_virtual_time(disk, story)
    assert clients[0].answered == [f"/{number}" for number in range(600)]
    # As many come during a sync and the wait before it; the first groups are smaller.
    together = (SYNC_S + WAIT_S) / BETWEEN_SENDS_S
    assert disk.syncs < 600 / together * 1.3
    assert len(clients[0].deliveries) <= disk.syncs, "a group is answered in one piece"


def test_only_those_who_send_on_are_paused():
    async def story(engine: Engine) -> None:
        streaming, waiting = Client(engine), Client(engine)
        await asyncio.gather(send_on(streaming, 200), one_by_one(waiting, "a", 20, BETWEEN_SENDS_S))
        assert streaming.pauses > 0
        assert waiting.pauses == 0
        assert not streaming.is_paused

    in_virtual_time(CrashDisk(), story)


@pytest.mark.parametrize("client_count", [1, 2, 20])
def test_clients_that_wait_for_their_answers_are_never_kept(client_count):
    async def story(engine: Engine) -> None:
        # Each at a pace of its own, so that some of them always send during a sync.
        pauses_s = (SYNC_S * number / client_count for number in range(client_count))
        work = [
            one_by_one(Client(engine), str(number), 100, pause_s)
            for number, pause_s in enumerate(pauses_s)
        ]
        await asyncio.gather(*work)

    # A write that comes during a sync waits for it and for one more.
    assert in_virtual_time(CrashDisk(), story) < 101 * 3 * SYNC_S


def test_events_are_nothing_that_a_client_sends():
    async def story(engine: Engine) -> None:
        watching, writing = Client(engine), Client(engine)
        engine.watches.add_persistent("/", watching, recursive=True)
        # The events of what the one writes are held while the other one's answers are.
        await asyncio.gather(
            one_by_one(writing, "a", 100, BETWEEN_SENDS_S / 3), one_by_one(watching, "b", 100)
        )
        assert len(watching.events) >= 200
        assert watching.pauses == writing.pauses == 0

    in_virtual_time(CrashDisk(), story)


def test_a_stream_that_has_ended_keeps_nobody():
    async def story(engine: Engine) -> None:
        loop, client = asyncio.get_running_loop(), Client(engine)
        await send_on(client, 100)
        begun = loop.time()
        await one_by_one(client, "a", 100)
        assert loop.time() - begun < 101 * SYNC_S

    in_virtual_time(CrashDisk(), story)


def test_callers_that_share_a_connection_are_kept_only_now_and_then():
    async def story(engine: Engine) -> None:
        client = Client(engine)

        async def later(number: int) -> None:
            await asyncio.sleep(number * SYNC_S / 3)
            await one_by_one(client, str(number), 300)

        await asyncio.gather(*map(later, range(3)))

    assert in_virtual_time(CrashDisk(), story) < 300 * 2 * SYNC_S + 8 * WAIT_S


def test_a_store_that_is_stopped_amid_a_wait_answers_first():
    clients: list[Client] = []

    async def story(engine: Engine) -> None:
        clients.append(Client(engine))
        for number in range(20):
            clients[0].create(f"/{number}")
            await asyncio.sleep(BETWEEN_SENDS_S)

    in_virtual_time(CrashDisk(), story)
    assert clients[0].answered == [f"/{number}" for number in range(20)]


@pytest.mark.parametrize("crash_after", range(1, 40, 3))
def test_a_crash_amid_a_stream_takes_back_nothing_that_was_answered(crash_after):
    disk = CrashDisk(seed=crash_after)
    answered: list[str] = []

    async def until_the_crash(engine: Engine) -> None:
        client = Client(engine)
        for number in range(crash_after):
            client.create(f"/{number}")
            await asyncio.sleep(BETWEEN_SENDS_S)
        answered.extend(client.answered)
        disk.crash()

    async def afterwards(engine: Engine) -> None:
        assert set(answered) <= engine.tree.nodes.keys()

    in_virtual_time(disk, until_the_crash, to_its_end=False)
    in_virtual_time(disk, afterwards)
