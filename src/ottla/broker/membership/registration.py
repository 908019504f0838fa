"""How a broker makes itself known in the store (KafkaServer, KafkaZkClient.CheckedEphemeral).

Permanent paths, the cluster's id, a generated broker id, and `/brokers/ids/<id>`: an ephemeral
node whose czxid is the broker's epoch (KIP-380).
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.errors import OttlaError
from ottla.metadata import znodes
from ottla.metadata.ended import EndedTopicZnode
from ottla.metadata.marks import OttlaBrokerZnode
from ottla.metadata.store import (
    Create,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    Op,
    RuntimeInconsistencyError,
    SetData,
    Stat,
    StoreError,
    WatchEvent,
)
from ottla.types import format_topic_id, random_topic_id

if TYPE_CHECKING:
    from random import Random

    from ottla.metadata.store import MetadataStore

logger = logging.getLogger(__name__)

# The store notices a dead session at the next tick after its time-out.
_EXPIRY_SLACK_MS = 2_000
_ATTEMPTS = 10


class RegistrationError(OttlaError):
    """This broker cannot join the cluster; the text says why."""


async def create_permanent_paths(store: MetadataStore) -> None:
    """The paths that every starting broker makes sure of, with null data."""
    missing = await _missing(store, _with_parents(znodes.PERSISTENT_PATHS))
    for path in missing:
        await _create_if_absent(store, path, None)


async def cluster_id(store: MetadataStore, random: Random) -> str:
    """The cluster's id; the first broker of all draws it."""
    path = znodes.ClusterIdZnode.path()
    try:
        data, _ = await store.get(path)
    except NoNodeError:
        drawn = format_topic_id(random_topic_id(random.randbytes))
        for parent in await _missing(store, _with_parents([path])[:-1]):
            await _create_if_absent(store, parent, None)
        await _create_if_absent(store, path, znodes.ClusterIdZnode.encode(drawn))
        data, _ = await store.get(path)
    return znodes.ClusterIdZnode.decode(data)


async def generate_broker_id(store: MetadataStore, reserved_max_id: int) -> int:
    """A new id above the reserved ones: the version of a node that is set for nothing else."""
    stat = await store.set(znodes.BrokerSequenceIdZnode.path(), b"")
    return reserved_max_id + stat.version


async def registrations(store: MetadataStore) -> dict[int, bytes | None]:
    """What the brokers in the store have registered, by broker id, those that died a moment ago
    among them; raises StoreError."""
    names = await store.children(znodes.BrokerIdsZnode.path())
    ids = sorted(int(name) for name in names if name.isdecimal())
    found = await asyncio.gather(*(_registration(store, broker_id) for broker_id in ids))
    return {broker_id: read[0] for broker_id, read in zip(ids, found, strict=True) if read}


async def _registration(store: MetadataStore, broker_id: int) -> tuple[bytes | None] | None:
    """None where it has gone meanwhile."""
    try:
        data, _ = await store.get(znodes.BrokerIdZnode.path(broker_id))
    except NoNodeError:
        return None
    return (data,)


async def check_endpoints(store: MetadataStore, info: znodes.BrokerInfo) -> None:
    """Refuses to advertise an address that another broker has registered."""
    own = {(endpoint.host, endpoint.port) for endpoint in info.endpoints}
    for broker_id, data in (await registrations(store)).items():
        if broker_id == info.broker_id:
            continue
        other = znodes.BrokerIdZnode.decode(broker_id, data)
        for endpoint in other.endpoints:
            if (endpoint.host, endpoint.port) in own:
                raise RegistrationError(
                    f"Configured end points {endpoint.host}:{endpoint.port} in advertised "
                    f"listeners are already registered by broker {broker_id}"
                )


async def register(
    store: MetadataStore, info: znodes.BrokerInfo, *, session_timeout_ms: int
) -> int:
    """Creates the broker's ephemeral node, marks it as Ottla's, and returns its epoch.

    A node left by the broker's previous life goes when that session ends: unlike Kafka, which dies
    at once, this waits for it. A node that outlives its session's time-out belongs to a second
    broker with the same id, which is fatal.
    """
    path = znodes.BrokerIdZnode.path(info.broker_id)
    data = znodes.BrokerIdZnode.encode(info)
    own = [OttlaBrokerZnode.parent(), EndedTopicZnode.parent()]
    for parent in await _missing(store, _with_parents(own)):
        await _create_if_absent(store, parent, None)
    for _ in range(_ATTEMPTS):
        # Null data first, then the value, in one step: KafkaZkClient's way, so that a watcher of
        # the parent never sees a half-made node.
        results = await store.multi(
            [
                Create(path, None, CreateMode.EPHEMERAL),
                SetData(path, data, version=0),
                await _mark(store, info.broker_id),
            ]
        )
        stat = results[1].stat
        if stat is not None:
            logger.info("registered broker %d with epoch %d", info.broker_id, stat.czxid)
            return stat.czxid
        if results[2].error is not None and not isinstance(
            results[2].error, RuntimeInconsistencyError
        ):
            continue  # the mark came or went meanwhile
        error = next(
            (r.error for r in results if isinstance(r.error, NodeExistsError)), results[0].error
        )
        if not isinstance(error, NodeExistsError):
            raise error or StoreError(path)
        present = await store.exists(path)
        if present is None:
            continue
        if present.ephemeral_owner == store.session_id:
            await store.set(path, data)
            return present.czxid
        await _await_end(store, path, present, session_timeout_ms)
    raise RegistrationError(f"{path} is created by others again and again")


async def _mark(store: MetadataStore, broker_id: int) -> Op:
    """The write that says, for as long as this broker is down: it is Ottla's (ADR 13)."""
    path, data = OttlaBrokerZnode.path(broker_id), OttlaBrokerZnode.encode()
    if await store.exists(path) is None:
        return Create(path, data)
    return SetData(path, data, version=-1)


async def _await_end(
    store: MetadataStore, path: str, present: Stat, session_timeout_ms: int
) -> None:
    """Waits until another session's node is gone; raises RegistrationError if it stays."""
    logger.warning(
        "%s belongs to session 0x%x: waiting for that session to end", path, present.ephemeral_owner
    )
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (session_timeout_ms + _EXPIRY_SLACK_MS) / 1000
    is_last_look = False
    while True:
        changed = asyncio.Event()

        def notice(_event: WatchEvent, changed: asyncio.Event = changed) -> None:
            changed.set()

        stat = await store.exists(path, notice)
        if stat is None or stat.ephemeral_owner != present.ephemeral_owner:
            return
        if is_last_look:
            raise RegistrationError(
                f"Error while creating ephemeral at {path}, node already exists and owner "
                f"'{present.ephemeral_owner}' does not match current session "
                f"'{store.session_id}'"
            )
        try:
            await asyncio.wait_for(changed.wait(), deadline - loop.time())
        except TimeoutError:
            # This process may have stood still while the other session ended.
            is_last_look = True


def _with_parents(paths: tuple[str, ...] | list[str]) -> list[str]:
    """Every path preceded by its parents, each once."""
    found: dict[str, None] = {}
    for path in paths:
        parts = path.strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            found["/" + "/".join(parts[:depth])] = None
    return list(found)


async def _missing(store: MetadataStore, paths: list[str]) -> list[str]:
    stats = await asyncio.gather(*(store.exists(path) for path in paths))
    return [path for path, stat in zip(paths, stats, strict=True) if stat is None]


async def _create_if_absent(store: MetadataStore, path: str, data: bytes | None) -> None:
    try:
        await store.create(path, data)
    except NodeExistsError:
        pass  # another broker is starting too
