"""What tests of Spark's parts share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.spark.loop_thread import LoopThread


async def _nothing() -> None:
    pass


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test", _nothing)
    yield made
    made.close()
