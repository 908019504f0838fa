from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.controller.controlled_cluster import ControlledCluster


@pytest.fixture
async def cluster() -> AsyncIterator[ControlledCluster]:
    made = ControlledCluster()
    await made.open(brokers=3)
    yield made
    await made.close()
