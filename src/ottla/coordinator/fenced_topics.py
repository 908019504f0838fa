"""Topics that coordinators take nothing new of for a while."""

from __future__ import annotations

from collections.abc import Iterator


class FencedTopics:
    """A topic stands here as long as anybody wants it to: whoever lifts a fence late must not lift
    that of another one."""

    def __init__(self) -> None:
        self._wishes: dict[str, set[str]] = {}

    def add(self, topic: str, reason: str) -> None:
        self._wishes.setdefault(topic, set()).add(reason)

    def discard(self, topic: str, reason: str) -> None:
        wishes = self._wishes.get(topic, set())
        wishes.discard(reason)
        if not wishes:
            self._wishes.pop(topic, None)

    def __contains__(self, topic: object) -> bool:
        return topic in self._wishes

    def __iter__(self) -> Iterator[str]:
        return iter(self._wishes)

    def __len__(self) -> int:
        return len(self._wishes)
