"""How a broker registers: paths, cluster id, epoch, second lives and second brokers."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from ottla.broker.membership import registration
from ottla.broker.membership.registration import RegistrationError
from ottla.metadata import znodes
from ottla.metadata.store import Stat, Watcher
from ottla.types import Endpoint, parse_topic_id
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


def _info(broker_id: int, port: int = 9092) -> znodes.BrokerInfo:
    return znodes.BrokerInfo(broker_id, (Endpoint("PLAINTEXT", "h", port),), None)


@pytest.fixture
async def ready(store: EmbeddedStore) -> EmbeddedStore:
    await registration.create_permanent_paths(store)
    return store


async def test_permanent_paths_are_made_once_with_null_data(store: EmbeddedStore) -> None:
    await registration.create_permanent_paths(store)
    await registration.create_permanent_paths(store)
    for path in (*znodes.PERSISTENT_PATHS, "/brokers", "/config"):
        data, stat = await store.get(path)
        assert (data, stat.version) == (None, 0), path


async def test_cluster_id_is_drawn_once(ready: EmbeddedStore) -> None:
    first = await registration.cluster_id(ready, random.Random(1))
    assert len(parse_topic_id(first)) == 16
    assert await registration.cluster_id(ready, random.Random(2)) == first


async def test_two_first_brokers_agree_on_the_cluster_id(
    engine: Engine, ready: EmbeddedStore
) -> None:
    other = EmbeddedStore(engine)
    ids = await asyncio.gather(
        registration.cluster_id(ready, random.Random(1)),
        registration.cluster_id(other, random.Random(2)),
    )
    assert ids[0] == ids[1]


async def test_generated_ids_come_after_the_reserved_ones(ready: EmbeddedStore) -> None:
    assert await registration.generate_broker_id(ready, 1000) == 1001
    assert await registration.generate_broker_id(ready, 1000) == 1002


async def test_epoch_is_the_creation_of_the_node(ready: EmbeddedStore) -> None:
    epoch = await registration.register(ready, _info(1), session_timeout_ms=100)
    data, stat = await ready.get("/brokers/ids/1")
    assert epoch == stat.czxid
    assert stat.ephemeral_owner == ready.session_id
    assert znodes.BrokerIdZnode.decode(1, data).endpoints == _info(1).endpoints
    # Again in the same session (a reply was lost): the same life, the same epoch.
    assert await registration.register(ready, _info(1), session_timeout_ms=100) == epoch


async def test_a_restart_inside_the_old_session_waits_for_its_end(
    engine: Engine, ready: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_epoch = await registration.register(ready, _info(1), session_timeout_ms=1000)
    again = EmbeddedStore(engine)
    watched = asyncio.Event()
    exists = again.exists

    async def look(path: str, watch: Any = None) -> Any:
        found = await exists(path, watch)
        if watch is not None and found is not None:
            watched.set()
        return found

    monkeypatch.setattr(again, "exists", look)
    waiting = asyncio.create_task(registration.register(again, _info(1), session_timeout_ms=5000))
    await asyncio.wait_for(watched.wait(), 5)
    assert not waiting.done()
    ready.expire()
    assert await asyncio.wait_for(waiting, 2) > old_epoch
    await again.close()


async def test_a_process_that_stood_still_looks_once_more_before_it_gives_up(
    engine: Engine, ready: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_EXPIRY_SLACK_MS", 0)
    old_epoch = await registration.register(ready, _info(1), session_timeout_ms=1000)
    again = EmbeddedStore(engine)
    look = again.exists

    async def exists(path: str, watcher: Watcher | None = None) -> Stat | None:
        """The other session ends right after this look, and nobody is told in time."""
        found = await look(path)
        if watcher is not None and found is not None:
            ready.expire()
        return found

    monkeypatch.setattr(again, "exists", exists)
    assert await registration.register(again, _info(1), session_timeout_ms=20) > old_epoch
    await again.close()


async def test_a_second_broker_with_the_same_id_dies(
    engine: Engine, ready: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "_EXPIRY_SLACK_MS", 0)
    await registration.register(ready, _info(1), session_timeout_ms=100)
    second = EmbeddedStore(engine)
    with pytest.raises(RegistrationError) as caught:
        await registration.register(second, _info(1), session_timeout_ms=50)
    assert str(caught.value) == (
        "Error while creating ephemeral at /brokers/ids/1, node already exists and owner "
        f"'{ready.session_id}' does not match current session '{second.session_id}'"
    )
    await second.close()


async def test_advertised_addresses_must_differ(ready: EmbeddedStore) -> None:
    await registration.register(ready, _info(1), session_timeout_ms=100)
    await registration.check_endpoints(ready, _info(1))
    await registration.check_endpoints(ready, _info(2, port=9093))
    with pytest.raises(RegistrationError) as caught:
        await registration.check_endpoints(ready, _info(2))
    assert str(caught.value) == (
        "Configured end points h:9092 in advertised listeners are already registered by broker 1"
    )
