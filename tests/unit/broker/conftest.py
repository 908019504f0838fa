"""Fixtures of the broker's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """A metadata store in memory; several sessions may be opened on it."""
    engine = Engine(system_runtime())
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def store(engine: Engine) -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore(engine)
    yield store
    await store.close()
