"""Which logs a broker has now, and the copies of those that move to another folder (KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ottla.storage.log.log import Log
from ottla.types import TopicPartition


class LogTable:
    """A partition has one log at most, and at most one copy beside it, its future."""

    __slots__ = ("_futures", "_logs")

    def __init__(self) -> None:
        self._logs: dict[TopicPartition, Log] = {}
        self._futures: dict[TopicPartition, Log] = {}

    def get(self, tp: TopicPartition) -> Log | None:
        return self._logs.get(tp)

    def logs(self) -> Iterable[Log]:
        return self._logs.values()

    def future(self, tp: TopicPartition) -> Log | None:
        return self._futures.get(tp)

    def futures(self) -> Mapping[TopicPartition, Log]:
        return self._futures

    def enter(self, log: Log) -> None:
        self._logs[log.tp] = log

    def enter_future(self, copy: Log) -> None:
        self._futures[copy.tp] = copy

    def remove(self, tp: TopicPartition) -> Log | None:
        return self._logs.pop(tp, None)

    def remove_future(self, tp: TopicPartition) -> Log | None:
        return self._futures.pop(tp, None)

    def logs_in(self, folder: Path) -> list[Log]:
        return [log for log in self._logs.values() if _is_in(log, folder)]

    def futures_in(self, folder: Path) -> list[Log]:
        return [copy for copy in self._futures.values() if _is_in(copy, folder)]

    def of_topic(self, topic: str) -> list[Log]:
        """With copies."""
        every = (*self._logs.values(), *self._futures.values())
        return [log for log in every if log.tp.topic == topic]

    def unmoved(self) -> Iterator[Log]:
        """Those that are not being copied to another folder, without strays."""
        return (
            log for tp, log in self._logs.items() if tp not in self._futures and not log.is_stray
        )

    def unmoved_log(self, tp: TopicPartition) -> Log | None:
        return None if tp in self._futures else self._logs.get(tp)


def _is_in(log: Log, folder: Path) -> bool:
    """Mostly the same object, which is several times as quick to see."""
    return log.data_dir is folder or log.data_dir == folder
