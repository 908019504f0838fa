"""Blocks of producer ids from the store, with brokers that race for them."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest

from ottla.coordinator.producer_ids import ProducerIds
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    Stat,
    StoreError,
)
from ottla.runtime import Runtime
from tests.support.coordinator.coordinator_fakes import VirtualClock

PATH = "/latest_producer_id_block"


class OneNodeStore:
    """A store with (at most) the one node; other tasks run between a read and a write."""

    def __init__(self, data: bytes | None = None, *, exists: bool = True) -> None:
        self.data, self.version, self.exists = data, 0, exists
        self.failure: StoreError | None = None
        self.writes = 0

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        await self._step(path)
        if not self.exists:
            raise NoNodeError(path)
        return self.data, Stat(0, 0, 0, 0, self.version, 0, 0, 0, 0, 0, 0)

    async def set(self, path: str, data: bytes, version: int) -> None:
        await self._step(path)
        if version != self.version:
            raise BadVersionError(path)
        self._write(data)

    async def create(self, path: str, data: bytes) -> None:
        await self._step(path)
        if self.exists:
            raise NodeExistsError(path)
        self.exists = True
        self._write(data)

    def _write(self, data: bytes) -> None:
        self.data, self.version, self.writes = data, self.version + 1, self.writes + 1

    async def _step(self, path: str) -> None:
        assert path == PATH
        await asyncio.sleep(0)
        if self.failure is not None:
            raise self.failure


def producer_ids(store: OneNodeStore, broker_id: int = 0) -> ProducerIds:
    unused = cast("Any", None)
    runtime = Runtime(VirtualClock(), random.Random(broker_id), unused, unused)
    return ProducerIds(runtime, cast("Any", store), broker_id)


@pytest.mark.parametrize("exists", [True, False])
async def test_a_block_serves_a_thousand_ids(exists: bool) -> None:
    store = OneNodeStore(exists=exists)
    ids = producer_ids(store, broker_id=4)
    assert [await ids.next_id() for _ in range(1000)] == list(range(1000))
    assert store.data == b'{"version":1,"broker":4,"block_start":"0","block_end":"999"}'
    assert store.writes == 1
    assert await ids.next_id() == 1000
    assert store.writes == 2


async def test_brokers_that_race_get_different_blocks() -> None:
    store = OneNodeStore()
    brokers = [producer_ids(store, broker_id) for broker_id in range(5)]
    taken = await asyncio.gather(*(each.next_id() for each in brokers for _ in range(3)))
    assert len(set(taken)) == 15
    assert {producer_id // 1000 for producer_id in taken} == set(range(5))


async def test_the_next_block_follows_the_last_one_of_any_broker() -> None:
    store = OneNodeStore(b'{"version":1,"broker":9,"block_start":"7000","block_end":"7999"}')
    assert await producer_ids(store).next_id() == 8000


async def test_a_store_that_cannot_be_reached_is_worth_a_retry() -> None:
    store = OneNodeStore()
    store.failure = ConnectionLossError(PATH)
    ids = producer_ids(store)
    with pytest.raises(KafkaError) as failed:
        await ids.next_id()
    assert failed.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    store.failure = None
    assert await ids.next_id() == 0


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b'{"version":1,"broker":0,"block_start":"9223372036854775000",'
        b'"block_end":"9223372036854775806"}',
    ],
)
async def test_nothing_is_guessed_where_no_id_can_be_had(data: bytes) -> None:
    store = OneNodeStore(data)
    with pytest.raises(KafkaError) as failed:
        await producer_ids(store).next_id()
    assert failed.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert store.writes == 0
