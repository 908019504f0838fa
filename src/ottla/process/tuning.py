"""What a process asks of Python and of the operating system for itself: how rarely to look for
garbage, how it gets its turns on a core, how many descriptors it may have."""

from __future__ import annotations

import contextlib
import gc
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

# Python's own are 700, 10 and 10: a start with 20,000 partitions, most of whose objects stay for
# good, then walks over the same objects again and again for a third of its time.
THRESHOLDS = (50_000, 20, 50)


def collect_rarely() -> None:
    """For a process that keeps most of what it makes, and makes few cycles."""
    gc.set_threshold(*THRESHOLDS)


def schedule_as_told(config: BrokerConfig) -> None:
    """For a broker that has started. A start is a row of short steps, many of which wait for
    another process; there, giving way at each of them has nothing to gather and only takes time.
    """
    if config.boolean("ottla.scheduling.batch.enable"):
        let_others_finish()


def let_others_finish() -> None:
    """A thread that runs keeps its core when a request for this one arrives (SCHED_BATCH).

    Where a core is free this changes nothing: the broker runs at once. Where none is, requests
    gather until a thread waits or the scheduler's tick ends its turn; the broker then serves them
    with one read and one write, instead of taking the core from its own client for each of them.
    Its share of the processor stays the same.

    For the calling thread, the one of the event loop, and those that it starts later. A policy
    that somebody else chose for the process is kept; one that the system refuses is only an
    opportunity lost.
    """
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def raise_file_limit() -> None:
    """Every connection and open segment takes a descriptor. The soft limit is often 1,024; a
    process may take it up to the hard one by itself."""
    import resource  # for these calls alone

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_for_segments(wanted: int) -> int:
    """At most half of them: where segments take all, the next file that cannot be opened looks
    like a folder that fails."""
    soft = _soft_limit()
    return wanted if soft is None else min(wanted, soft // 2)


def share_for_connections() -> int | None:
    """Three eighths; None: as many as one likes. An eighth is left for indexes, checkpoints and
    what the process itself opens."""
    soft = _soft_limit()
    return None if soft is None else soft * 3 // 8


def _soft_limit() -> int | None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
