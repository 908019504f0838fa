"""Follows sequential change notes in a folder of the store (ZkNodeChangeNotificationListener).

Whoever changes something leaves a note; every broker takes the notes in their order and reads
again what they name. Notes older than a quarter of an hour are removed by whoever sees them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.metadata.store import NoNodeError, StoreError, WatchEvent
from ottla.metadata.znode_values import BadZnodeError

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Clock

logger = logging.getLogger(__name__)

CHANGE_EXPIRATION_MS = 15 * 60 * 1000
_RETRY_S = 1.0

Take = Callable[[bytes | None], Awaitable[None]]


class ChangeNotes:
    """Hands each new note's data to `take`, which raises BadZnodeError for one it cannot read."""

    def __init__(
        self, store: MetadataStore, clock: Clock, parent: str, prefix: str, take: Take
    ) -> None:
        self._store = store
        self._clock = clock
        self._parent = parent
        self._prefix = prefix
        self._take = take
        self._last_sequence = -1
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Takes what is there, then goes on in the background."""
        await self._take_new()
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def on_new_session(self) -> None:
        """All notes again: some may have come while nobody watched."""
        self._last_sequence = -1
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._take_new()
            except StoreError as error:
                logger.warning(
                    "notes in %s could not be read, trying again: %r", self._parent, error
                )
                self._wake.set()
                await asyncio.sleep(_RETRY_S)

    def _notice(self, _event: WatchEvent) -> None:
        self._wake.set()

    async def _take_new(self) -> None:
        present = sorted(
            (sequence, name)
            for name in await self._store.children(self._parent, self._notice)
            if (sequence := self._sequence(name)) is not None
        )
        for sequence, name in present:
            if sequence > self._last_sequence:
                await self._take_one(name)
                self._last_sequence = sequence
        await self._remove_old([name for _, name in present])

    async def _take_one(self, name: str) -> None:
        try:
            data, _ = await self._store.get(f"{self._parent}/{name}")
            await self._take(data)
        except NoNodeError:
            return  # removed meanwhile
        except BadZnodeError as error:
            logger.error("note %s/%s is passed over: %s", self._parent, name, error)
        except StoreError:
            raise
        except Exception:
            # Kafka's thread ends here, and its broker is deaf to every later change until it is
            # started again.
            logger.exception("note %s/%s could not be taken over", self._parent, name)

    async def _remove_old(self, names: list[str]) -> None:
        for name in names:
            path = f"{self._parent}/{name}"
            stat = await self._store.exists(path)
            if stat is None:
                continue
            if self._clock.now_ms() - stat.ctime <= CHANGE_EXPIRATION_MS:
                return  # later ones are younger
            try:
                await self._store.delete(path)
            except NoNodeError:
                pass  # another broker was faster

    def _sequence(self, name: str) -> int | None:
        digits = name.removeprefix(self._prefix)
        return int(digits) if digits != name and digits.isdecimal() else None
