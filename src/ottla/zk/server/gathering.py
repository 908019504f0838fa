"""Decides whether a group of writes waits a little for more before it is synced. Pure.

A sync costs the same for one write as for a hundred. A client that sends on without waiting for
its answers loses nothing when they come a millisecond later, and the server then syncs, wakes its
writer and sends a few times less often. A client that does wait must never be kept: what counts
is only what a connection sends behind an answer that it has not got yet, and where a wait brought
little of that, the next ones are left out for longer and longer.
"""

from __future__ import annotations

# The shortest that uvloop can wait; PostgreSQL's commit_delay is the same idea.
WAIT_S = 0.001
# A wait that brings fewer answers to go out together is not worth its time.
WORTH_WAITING_FOR = 4
# Groups that go without a wait after one that was for nothing; twice as many each time.
FIRST_PAUSE = 8
LONGEST_PAUSE = 1024


class Gathering:
    def __init__(self) -> None:
        self._pause = FIRST_PAUSE
        self._left_out = 0

    def is_due(self, sent_on: int) -> bool:
        """Before a group is synced; `sent_on`: how much clients sent behind unanswered requests
        since the last one."""
        if sent_on == 0:
            return False
        if self._left_out > 0:
            self._left_out -= 1
            return False
        return True

    def waited(self, gained: int) -> None:
        """After a wait; `gained`: how much more of `sent_on` it brought."""
        if gained >= WORTH_WAITING_FOR:
            self._pause = FIRST_PAUSE
        else:
            self._left_out = self._pause
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
