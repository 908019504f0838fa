"""The links between hosts: how long bytes take, whether they get through at all."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.simulation.loop import SimulationLoop
    from ottla.simulation.trace import Trace

_DELAY_S = (0.00005, 0.0015)
_LONG_DELAY_S = (0.005, 0.06)
_LONG_DELAY_SHARE = 0.01
# A chunk of bytes may come in two parts: receivers must not count on whole frames.
_SPLIT_SHARE = 0.05


class Link:
    """One direction between two hosts."""

    __slots__ = ("cut", "slowness")

    def __init__(self) -> None:
        self.cut = False
        self.slowness = 1.0


class Links:
    """All of them; one sequence of random numbers decides about every delay."""

    def __init__(self, loop: SimulationLoop, seed: str, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.random = random.Random(f"{seed}/network")
        self._links: dict[tuple[str, str], Link] = {}

    def between(self, source: str, target: str) -> Link:
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = Link()
        return found

    def used(self) -> list[tuple[str, str]]:
        """Source and target of every link that something was sent over, or done to."""
        return list(self._links)

    def arrival(self, source: str, target: str) -> float:
        """When bytes that leave now come in."""
        slowness = self.between(source, target).slowness
        is_long = self.random.random() < _LONG_DELAY_SHARE
        delay_s = self.random.uniform(*(_LONG_DELAY_S if is_long else _DELAY_S))
        return self.loop.time() + delay_s * slowness

    def pieces(self, data: bytes) -> tuple[bytes, ...]:
        if len(data) > 1 and self.random.random() < _SPLIT_SHARE:
            middle = self.random.randrange(1, len(data))
            return data[:middle], data[middle:]
        return (data,)

    def note(self, source: str, target: str, data: bytes) -> None:
        self.trace.add("send", f"{source}>{target} {len(data)} {zlib.crc32(data):08x}")
