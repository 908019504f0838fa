"""`ottla bench spark`: format("ottla") beside Spark's own Kafka connector."""

from __future__ import annotations

from typing import Any


def main(**options: Any) -> int:
    # Spark's Python workers import `empty.py` below this package, and nothing else of it.
    from ottla.bench.spark.run import main as run_main

    return run_main(**options)
