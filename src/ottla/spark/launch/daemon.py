"""Spark's daemon with the imports of its workers done beforehand, once.

Spark's own forks first and imports then, in every worker: 0.5 to 0.7 s of a processor each, when a
query starts, when more tasks run at once than before, and after a minute without work, when Spark
ends its idle workers. It does so because threads do not survive a fork; what is imported here has
none of its own, but jemalloc's in Arrow, which knows about forks.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

# What tasks of the source and the sink use; pandas is imported by the first `pyarrow.array`.
_TASK_MODULES = (
    "pandas",
    "pyarrow.compute",
    "uvloop",
    "ottla.spark.sink.task_writer",
    "ottla.spark.sink.writers",
    "ottla.spark.source.range_reader",
)
_TASK_WORKER = "pyspark.worker"
_OTHERS = ("ottla.spark.data_source", "ottla.spark.sink.writers")


def main() -> None:
    """`<this> WORKER_MODULE`, as Spark starts pyspark.daemon."""
    from pyspark import daemon

    worker = sys.argv[1] if len(sys.argv) > 1 else _TASK_WORKER
    preload(worker, *(_TASK_MODULES if worker == _TASK_WORKER else _OTHERS))
    daemon.worker = without_farewell(daemon.worker)
    daemon.manager()


def without_farewell(worker: Callable[..., int]) -> Callable[..., int]:
    """Spark ends idle workers by closing their sockets. What they say to that goes nowhere over
    TCP; over a Unix socket it fails, and each leaves a traceback."""

    def run(channel: socket.socket, authenticated: bool) -> int:
        try:
            return worker(channel, authenticated)
        except BrokenPipeError:
            return 1

    return run


def preload(*names: str) -> None:
    """Imports what can be imported; the worker that needs the rest says what is wrong with it."""
    with contextlib.redirect_stdout(sys.stderr):  # Spark reads the daemon's port from stdout
        for name in names:
            with contextlib.suppress(Exception):  # whatever a module of someone else raises
                importlib.import_module(name)
    if "numpy" in sys.modules:
        # Or all workers would draw the same numbers; `random` sees to this itself.
        import numpy as np

        os.register_at_fork(after_in_child=np.random.seed)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    main()
