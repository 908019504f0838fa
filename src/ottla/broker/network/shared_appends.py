"""Produce requests of a crowd: where many connections are read in one round of the event loop, the
batches for a partition are appended with one write when all of them have been read.

Each alone would cost a write to the file and everything around it. A request that is kept here is
the only one of its connection that is under way; what cannot be appended like this goes to the
connection's queue, as if it had just come.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.requests.direct_produce import answer_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.answers import Answers
    from ottla.broker.replication.append import Appends
    from ottla.broker.requests.direct_produce import Form
    from ottla.types import TopicPartition

    Done = Callable[[memoryview | None], None]

logger = logging.getLogger(__name__)

# Larger requests are served where they were read: a copy would cost as much as it saves.
MOST_REQUEST_BYTES = 16 * 1024
# What waits for the end of a round, of all connections of a listener.
MOST_WAITING_BYTES = 4 * 1024 * 1024
# With one write (IOV_MAX is 1,024).
MOST_TOGETHER = 512


# One request: its form, its correlation id, its frame, the batch in it; who is answered, and who is
# told that it was appended, or that it needs its handler (then with the frame, which is nobody
# else's). A bare tuple: one is made for every request.
Sent = tuple["Form", int, memoryview, memoryview, "Answers", "Done"]


class SharedAppends:
    """One per listener."""

    __slots__ = ("_bytes", "_listener", "_most", "_waiting")

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self._waiting: dict[tuple[TopicPartition, int], list[Sent]] = {}
        self._bytes = 0
        # How many are tried with the next write.
        self._most = MOST_TOGETHER

    def add(self, sent: Sent) -> None:
        form = sent[0]
        together = self._waiting.get((form.tp, form.acks))
        if together is None:
            together = self._waiting[form.tp, form.acks] = []
        together.append(sent)
        self._bytes += len(sent[2])

    @property
    def is_full(self) -> bool:
        return self._bytes >= MOST_WAITING_BYTES

    def flush(self, appends: Appends) -> None:
        """Appends and answers what waits."""
        waiting, self._waiting = self._waiting, {}
        self._bytes = 0
        served: list[tuple[Done, memoryview | None]] = []
        for (tp, acks), together in waiting.items():
            together.reverse()
            try:
                while together:
                    self._append_some(appends, tp, acks, together, served)
            except Exception:
                # Those of other partitions have nothing to do with it.
                logger.exception("%s: requests of several connections could not be appended", tp)
                served += [(sent[5], sent[2]) for sent in reversed(together)]
        # Only now: whoever is told goes on with its next requests, and appends behind these.
        for done, frame in served:
            try:
                done(frame)
            except Exception:
                logger.exception("a connection could not go on")

    def _append_some(
        self,
        appends: Appends,
        tp: TopicPartition,
        acks: int,
        together: list[Sent],
        served: list[tuple[Done, memoryview | None]],
    ) -> None:
        """Takes the first ones, which are the last ones of `together`, with one write; one that
        needs its handler is served when it has its frame back."""
        some = together[: -self._most - 1 : -1]
        partition = appends.partitions.get(tp)
        log = None if partition is None else partition.log
        if partition is None or log is None:
            bases: list[int] = []
            end_offset = time_ms = -1
        else:
            batches = [sent[3] for sent in some]
            bases, end_offset, time_ms = appends.append_plain(partition, log, batches, acks)
        count = len(bases)
        # Where few are taken at a time, few are looked at: all of them each time would be too long
        # a turn (in a segment whose first record has no time each batch asks the clock).
        self._most = min(2 * self._most, MOST_TOGETHER) if count == len(some) else max(count, 1)
        del together[-(count or 1) :]
        if partition is None or log is None or not count:
            served.append((some[0][5], some[0][2]))
            return
        served += [(sent[5], None) for sent in some[:count]]
        ends = [*bases[1:], end_offset]
        listener = self._listener
        for sent, base, end in zip(some, bases, ends, strict=False):
            form, correlation_id, _, _, answers, _ = sent
            place = base, end, time_ms
            answers.send_one(
                answer_to(appends, partition, log, listener, form, correlation_id, place)
            )
