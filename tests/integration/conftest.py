"""The cluster that integration tests share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.integration.local_cluster import LocalCluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    """Three brokers that know each other."""
    cluster = LocalCluster(tmp_path)
    await cluster.store.start()
    try:
        await asyncio.gather(*(cluster.start(broker_id) for broker_id in (0, 1, 2)))
        await cluster.until(
            lambda: all(
                len(node.services.metadata_cache.alive_brokers()) == 3
                for node in cluster.nodes.values()
            ),
            "three live brokers everywhere",
        )
        yield cluster
        # A strict controller resigns over one: a test might pass all the same, under the next one.
        assert not any(n.controller.journal.illegal_transitions for n in cluster.nodes.values())
    finally:
        for node in cluster.nodes.values():
            await node.stop(controlled=False)
        await cluster.store.stop()
