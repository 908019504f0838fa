"""Gives a topic another number of partitions, again and again; sometimes it changes its mind,
sometimes it dies, and another one finds what it has left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.client.admin.client import Admin
from ottla.client.admin.groups import GroupAdmin
from ottla.client.cluster import Cluster
from ottla.errors import ErrorCode, KafkaError
from ottla.simulation.resizing.clients import partition_counts
from ottla.simulation.resizing.copy import Copy, Inexact, carried
from ottla.topics.partitioners import Partitioner

if TYPE_CHECKING:
    from ottla.client.admin.resizing import ResizeBegun, ResizeState
    from ottla.runtime import Runtime
    from ottla.simulation.resizing.lives import LivesLedger
    from ottla.simulation.stage import Stage
    from ottla.types import TopicId

_TIMEOUT_MS = 8_000.0
_PAUSE_S = (0.1, 2.0)
_DOOM_S = 0.5
_ABORT_SHARE = 0.1
_ABORT_FOUND_SHARE = 0.3
_LINGER_SHARE = 0.4
_LINGER_S = (0.0, 3.0)
_BEAT_S = 2.0
_FENCES = 4
# What an earlier copier had sent has arrived by then, or the copy turns out to be inexact.
_QUIET_S = 6.0
_SWAPPED = ("moving", "carrying")


class Resizer:
    """`doom` has its process killed after some seconds; `topic_id` is what the store has now."""

    def __init__(
        self,
        stage: Stage,
        ledger: LivesLedger,
        name: str,
        topic: str,
        runtime: Runtime,
        *,
        life: int,
        doom: Callable[[float], None],
        topic_id: Callable[[str], TopicId | None],
    ) -> None:
        self._stage = stage
        self._ledger = ledger
        self._name = name
        self._topic = topic
        self._random = stage.random_of(f"{name}.{life}")
        self._doom = doom
        self._topic_id = topic_id
        self._cluster = Cluster(runtime, stage.bootstrap, client_id=name)
        self._admin = Admin(self._cluster, timeout_ms=_TIMEOUT_MS)

    async def run(self) -> None:
        """Until the end has come and nothing is under way."""
        while True:
            await asyncio.sleep(self._random.uniform(*_PAUSE_S))
            try:
                under_way = await self._admin.resizes(self._topic)
                if self._stage.is_ending and not under_way:
                    break
                await self._one(under_way)
            except Inexact:
                self._note("the copy is not exact")
                await self._try_to_abort()
            except KafkaError as error:
                self._note(f"{error.code.name}: {error}")
            except OSError as error:
                self._note(repr(error))
        await self._admin.close()

    async def _one(self, under_way: list[ResizeState]) -> None:
        if under_way and under_way[0].phase in _SWAPPED:
            return
        if under_way and self._random.random() < _ABORT_FOUND_SHARE:
            await self._abort(None)
            return
        if under_way:
            partitions = under_way[0].partitions
        else:
            [old] = await partition_counts(self._cluster, [self._topic])
            others = [n for n in range(1, self._stage.plan.max_partitions + 1) if n != old]
            partitions = self._random.choice(others)
        self._step(f"begins: {partitions} partitions")
        begun = await self._admin.begin_resize(
            self._topic, partitions, partitioner=str(Partitioner.MURMUR2)
        )
        self._ledger.has_shape(begun.shadow_id, partitions)
        if begun.is_resumed:
            await asyncio.sleep(_QUIET_S)
        copy = Copy(self._cluster, self._topic, begun, partitions, self._random)
        self._step(f"copies to {begun.shadow}")
        await copy.resume()
        for _ in range(_FENCES):
            while await copy.go_on():
                pass
            if self._random.random() < _ABORT_SHARE:
                await self._abort(begun)
                return
            if await self._finish(copy, begun):
                return
            await asyncio.sleep(self._random.uniform(*_PAUSE_S))

    async def _finish(self, copy: Copy, begun: ResizeBegun) -> bool:
        """False where the fence did not come, or was lifted."""
        self._step("fences")
        try:
            fence = await self._admin.fence_resize(self._topic, begun.topic_id)
        except KafkaError as error:
            self._note(f"no fence: {error.code.name}: {error}")
            return False
        self._step(f"copies the rest under fence {fence}")
        beat = asyncio.get_running_loop().create_task(self._beat(begun, fence))
        try:
            # Not what any broker says: one that is cut off may take itself for a leader.
            ends = await self._admin.fenced_ends(self._topic, begun.topic_id, fence)
            await copy.go_to(ends)
            came_from = await copy.shadow(ends)
            groups = {
                group: carried(came_from, committed)
                for group, committed in (await self._committed()).items()
            }
            if self._random.random() < _LINGER_SHARE:
                await asyncio.sleep(self._random.uniform(*_LINGER_S))
        finally:
            beat.cancel()
        self._step(f"finishes {copy.records} records, {groups}")
        try:
            end = await self._admin.finish_resize(self._topic, begun, fence, groups)
        except KafkaError as error:
            self._note(f"not finished: {error.code.name}: {error}")
            if error.code is ErrorCode.FENCED_LEADER_EPOCH:
                self._expect(begun, is_swapped=False)
                return False
            raise
        self._note("finished")
        if end.topic_id != begun.shadow_id:
            self._stage.violated(f"{self._name}: finished with another topic id")
        self._expect(begun, is_swapped=True)
        self._ledger.carried_over(begun.shadow_id, groups)
        return True

    def _expect(self, begun: ResizeBegun, *, is_swapped: bool) -> None:
        """An answer is true at the moment at which it comes: nobody else resizes the topic."""
        now = self._topic_id(self._topic)
        if now is not None and (now == begun.shadow_id) != is_swapped:
            self._stage.violated(f"{self._name} was told {is_swapped=}, and that is not so")

    async def _beat(self, begun: ResizeBegun, fence: int) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            try:
                await self._admin.fence_resize(self._topic, begun.topic_id, fence)
            except KafkaError as error:
                self._note(f"fence {fence}: {error.code.name}")
                return

    async def _committed(self) -> dict[str, dict[int, int]]:
        groups = GroupAdmin(self._cluster, timeout_ms=_TIMEOUT_MS)
        found = {}
        for listing in await groups.list_groups():
            offsets = await groups.committed_offsets(listing.group_id)
            own = {tp.partition: at for tp, at in offsets.items() if tp.topic == self._topic}
            if own:
                found[listing.group_id] = own
        return found

    async def _abort(self, begun: ResizeBegun | None) -> None:
        self._step("aborts")
        await self._admin.abort_resize(self._topic)
        if begun is not None:
            self._ledger.given_up.add(begun.shadow_id)
        self._note("aborted")

    async def _try_to_abort(self) -> None:
        try:
            await self._abort(None)
        except KafkaError as error:
            self._note(f"not aborted: {error.code.name}")

    def _step(self, text: str) -> None:
        """What it is about to do; it may die of it."""
        self._note(text)
        if not self._stage.is_ending and self._random.random() < self._stage.plan.deaths:
            self._doom(self._random.uniform(0, _DOOM_S))

    def _note(self, text: str) -> None:
        self._stage.note(self._name, text)
