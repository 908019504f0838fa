"""Keeps Python's garbage collector away from what a worker of Spark has imported.

Spark's daemon collects garbage after every piece of work of a worker (pyspark/daemon.py), which
walks the 40,000 to 80,000 objects of PySpark, Arrow and this package: 20 to 40 ms of a processor
each time. A micro-batch on two cores with four tasks, which read and write, is ten such pieces.
"""

from __future__ import annotations

import gc
import os
import sys

_WORKER = "PYTHON_WORKER"  # what PythonRunner and PythonPlannerRunner set
_frozen_modules = 0


def spare_imports() -> None:
    """Puts what is there now beyond the collector, where modules came since the last call.

    Only in Spark's workers: other processes are their owners'.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules and os.environ.get("SPARK_PYTHON_RUNTIME") == _WORKER:
        _frozen_modules = len(sys.modules)
        gc.freeze()
