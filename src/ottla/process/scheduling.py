"""How the operating system gives a broker its turns."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


def schedule_as_told(config: BrokerConfig) -> None:
    if config.boolean("ottla.scheduling.batch.enable"):
        let_others_finish()


def let_others_finish() -> None:
    """A thread that runs keeps its core when a request for this one arrives (SCHED_BATCH).

    Where a core is free this changes nothing: the broker runs at once. Where none is, requests
    gather until a thread waits or the scheduler's tick ends its turn; the broker then serves them
    with one read and one write, instead of taking the core from its own client for each of them.
    Its share of the processor stays the same.

    For the calling thread and those that it starts. A policy that somebody else chose for the
    process is kept; one that the system refuses is only an opportunity lost.
    """
    if hasattr(os, "SCHED_BATCH") and os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
