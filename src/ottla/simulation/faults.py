"""Seeded trouble: each fault picks a victim, does its harm, lasts a while and is undone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from ottla.simulation.cluster import STORE

if TYPE_CHECKING:
    from ottla.simulation.cluster import SimCluster
    from ottla.simulation.scenario import FaultPlan

_SLOWNESS = (5.0, 100.0)
# Faults that take nobody out of an ISR.
_HARMLESS = ("reset", "slow")
_CALM_LOOKS = 600
_CALM_LOOK_S = 0.05
# A stop may wait for a controller; looked at twice a second.
_STOP_LOOKS = 240


class Promise(Protocol):
    """How far records are safe from a power cut: min.insync.replicas=2 covers one broker."""

    def covers(self, name: str) -> bool:
        """Whether everything that is committed on the broker is held by others, all in order."""

    def loses_power(self, name: str) -> Callable[[], bool]:
        """Called at the power cut; tells from then on whether a controller has reacted."""


class Faults:
    """What goes wrong in one run, and when: one method per kind of fault, each undone in time."""

    def __init__(
        self,
        cluster: SimCluster,
        plan: FaultPlan,
        seed: str,
        clients: list[str],
        promise: Promise | None = None,
    ) -> None:
        self._cluster = cluster
        self._promise = promise
        # While a broker's disk loses writes that others still hold, nothing else may happen.
        self._exclusive = False
        self._plan = plan
        self._random = random.Random(f"{seed}/faults")
        self._clients = clients
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._hurt: set[str] = set()

    async def run(self) -> None:
        """Faults at random distances until cancelled or the plan's time is over."""
        if not self._plan.weights:
            return
        ending = self._cluster.loop.time() + self._plan.duration_ms / 1000
        while True:
            await asyncio.sleep(self._random.uniform(*self._plan.interval_ms) / 1000)
            if self._cluster.loop.time() >= ending:
                break
            weights = self._plan.weights
            [kind] = self._random.choices(list(weights), list(weights.values()))
            if self._exclusive and kind not in _HARMLESS:
                continue
            fault: Callable[[], Awaitable[None]] = getattr(self, f"_do_{kind}")
            task = asyncio.get_running_loop().create_task(self._wrapped(kind, fault))
            self._under_way[task] = None
            task.add_done_callback(lambda done: self._under_way.pop(done, None))
        while self._under_way:
            await asyncio.wait(list(self._under_way))

    async def _wrapped(self, kind: str, fault: Callable[[], Awaitable[None]]) -> None:
        self._cluster.trace.add("fault", kind)
        await fault()

    # processes

    async def _do_crash(self) -> None:
        await self._crash(self._any_broker(), power=False)

    async def _do_crash_controller(self) -> None:
        controller = self._cluster.controller_id()
        if controller is not None:
            await self._crash(self._free(f"broker-{controller}"), power=False)

    async def _do_power(self) -> None:
        if self._promise is None:
            await self._crash(self._any_broker(), power=True)
            return
        if self._exclusive:
            return
        self._exclusive = True
        name = f"broker-{self._random.choice(list(self._cluster.broker_ids))}"
        if not await self._calm_comes(lambda: self._promise_covers(name)):
            self._exclusive = False
            return
        noticed = self._promise.loses_power(name)
        crash = asyncio.get_running_loop().create_task(self._crash(name, power=True))
        await self._calm_comes(noticed)
        self._exclusive = False
        await crash

    def _promise_covers(self, name: str) -> bool:
        alone = len(self._under_way) == 1 and not self._hurt
        return alone and self._promise is not None and self._promise.covers(name)

    async def _calm_comes(self, holds: Callable[[], bool]) -> bool:
        for _ in range(_CALM_LOOKS):
            if holds():
                return True
            await asyncio.sleep(_CALM_LOOK_S)
        return False

    async def _crash(self, name: str | None, *, power: bool) -> None:
        if name is None:
            return
        self._hurt.add(name)
        self._cluster.kill(name, power=power)
        await self._last()
        self._revive(name)
        self._hurt.discard(name)

    async def _do_stop(self) -> None:
        """SIGTERM and a later start; the stop itself may take longer than the fault lasts."""
        name = self._any_broker()
        if name is None:
            return
        self._hurt.add(name)
        process = self._cluster.host(name).process
        if self._cluster.stop_broker(int(name.removeprefix("broker-"))):
            await self._last()
            for _ in range(_STOP_LOOKS):
                if self._cluster.host(name).process is not process:
                    break
                await asyncio.sleep(0.5)
            self._revive(name)
        self._hurt.discard(name)

    async def _do_pause(self) -> None:
        name = self._any_broker()
        if name is None:
            return
        self._hurt.add(name)
        self._cluster.pause(name)
        await self._last()
        self._cluster.resume(name)
        self._hurt.discard(name)

    async def _do_expire(self) -> None:
        self._cluster.expire_session(self._random.choice(list(self._cluster.broker_ids)))

    async def _do_store_crash(self) -> None:
        await self._crash_store(power=False)

    async def _do_store_power(self) -> None:
        await self._crash_store(power=True)

    async def _crash_store(self, *, power: bool) -> None:
        if self._free(STORE) is None:
            return
        self._hurt.add(STORE)
        self._cluster.kill(STORE, power=power)
        await self._last()
        await self._cluster.start_store()
        self._hurt.discard(STORE)

    # network

    async def _do_cut(self) -> None:
        one, other = self._two_hosts()
        self._cluster.trace.add("cut", f"{one}<>{other}")
        self._cluster.network.cut(one, other)
        self._cluster.network.cut(other, one)
        await self._last()
        self._cluster.network.heal(one, other)
        self._cluster.network.heal(other, one)

    async def _do_cut_one_way(self) -> None:
        one, other = self._two_hosts()
        self._cluster.trace.add("cut", f"{one}>{other}")
        self._cluster.network.cut(one, other)
        await self._last()
        self._cluster.network.heal(one, other)

    async def _do_slow(self) -> None:
        one, other = self._two_hosts()
        slowness = self._random.uniform(*_SLOWNESS)
        self._cluster.trace.add("slow", f"{one}>{other} {slowness:.1f}")
        self._cluster.network.links.between(one, other).slowness = slowness
        await self._last()
        self._cluster.network.links.between(one, other).slowness = 1.0

    async def _do_reset(self) -> None:
        one, other = self._two_hosts()
        self._cluster.trace.add("reset", f"{one}<>{other}")
        self._cluster.network.reset_connections(one, other)

    # choices

    async def _last(self) -> None:
        await asyncio.sleep(self._random.uniform(*self._plan.lasts_ms) / 1000)

    def _any_broker(self) -> str | None:
        return self._free(f"broker-{self._random.choice(list(self._cluster.broker_ids))}")

    def _free(self, name: str) -> str | None:
        """The host, unless it has trouble already or enough others have."""
        is_up = self._cluster.host(name).is_up
        return name if is_up and name not in self._hurt and self._may_hurt(name) else None

    def _may_hurt(self, name: str) -> bool:
        return name == STORE or len(self._hurt - {STORE}) < self._plan.max_down

    def _two_hosts(self) -> tuple[str, str]:
        brokers = [f"broker-{i}" for i in self._cluster.broker_ids]
        one, other = self._random.sample([*brokers, STORE, *self._clients], 2)
        return one, other

    def _revive(self, name: str) -> None:
        if not self._cluster.host(name).is_up:
            self._cluster.start_broker(int(name.removeprefix("broker-")))
