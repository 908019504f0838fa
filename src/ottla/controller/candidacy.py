"""Running for controller: /controller and /controller_epoch in one multi.

Matches KafkaZkClient.registerControllerAndIncrementControllerEpoch, with the case of the lost
answer: the multi may have been applied although nobody said so.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.controller.interpreter import ControllerMovedError, persistently
from ottla.metadata.store import (
    Check,
    ConnectionLossError,
    Create,
    CreateMode,
    Delete,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    Op,
    OperationTimeoutError,
    SetData,
    Stat,
    Watcher,
)
from ottla.metadata.znodes import ControllerEpochZnode, ControllerZnode
from ottla.runtime import Clock

_INITIAL_EPOCH = 0


class Office(NamedTuple):
    """What the winner holds: its epoch and the version that fences its writes."""

    epoch: int
    epoch_zk_version: int


async def watch_controller(store: MetadataStore, watcher: Watcher) -> bool:
    """Whether there is a controller; the watcher fires when that changes."""
    return await persistently(lambda: store.exists(ControllerZnode.path(), watcher)) is not None


async def read_controller(store: MetadataStore) -> tuple[int | None, Stat] | None:
    """The controller's id (None where the node holds garbage) and stat; None where there is none"""

    async def attempt() -> tuple[int | None, Stat] | None:
        try:
            data, stat = await store.get(ControllerZnode.path())
        except NoNodeError:
            return None
        return ControllerZnode.decode(data), stat

    return await persistently(attempt)


async def elect(store: MetadataStore, clock: Clock, broker_id: int) -> Office:
    """Wins the office or raises ControllerMovedError."""
    epoch, version = await _read_or_create_epoch(store)
    ballot: list[Op] = [
        Create(
            ControllerZnode.path(),
            ControllerZnode.encode(broker_id, clock.now_ms()),
            CreateMode.EPHEMERAL,
        ),
        SetData(ControllerEpochZnode.path(), ControllerEpochZnode.encode(epoch + 1), version),
    ]
    try:
        results = await store.multi(ballot)
    except (ConnectionLossError, OperationTimeoutError):
        return await _read_back(store, broker_id, epoch + 1)
    if results[0].error is None and results[1].error is None and results[1].stat is not None:
        return Office(epoch + 1, results[1].stat.version)
    return await _read_back(store, broker_id, epoch + 1)


async def free_own_office(store: MetadataStore) -> None:
    """Ends an office that this session holds, so that a new election can begin.

    The epoch is read first: whoever is elected in between moves it on and keeps the office.
    """
    _, version = await _read_or_create_epoch(store)
    found = await read_controller(store)
    if found is not None and found[1].ephemeral_owner == store.session_id:
        fence = Check(ControllerEpochZnode.path(), version)
        await persistently(lambda: store.multi([fence, Delete(ControllerZnode.path())]))


async def _read_or_create_epoch(store: MetadataStore) -> tuple[int, int]:
    path = ControllerEpochZnode.path()

    async def attempt() -> tuple[int, int]:
        try:
            data, stat = await store.get(path)
        except NoNodeError:
            try:
                _, stat = await store.create(path, ControllerEpochZnode.encode(_INITIAL_EPOCH))
            except NodeExistsError:
                data, stat = await store.get(path)
            else:
                return _INITIAL_EPOCH, stat.version
        return ControllerEpochZnode.decode(data), stat.version

    return await persistently(attempt)


async def _read_back(store: MetadataStore, broker_id: int, wanted_epoch: int) -> Office:
    """After a refusal or a lost answer: our own node under our session means that we won."""
    found = await read_controller(store)
    epoch, version = await _read_or_create_epoch(store)
    if (
        found is not None
        and found[0] == broker_id
        and found[1].ephemeral_owner == store.session_id
        and epoch == wanted_epoch
    ):
        return Office(epoch, version)
    winner = "a broker that has just resigned" if found is None else f"broker {found[0]}"
    raise ControllerMovedError(f"{winner} was elected instead of broker {broker_id}")
