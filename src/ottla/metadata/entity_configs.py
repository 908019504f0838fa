"""Configs of users, clients and addresses: `/config/users/<name>` and the like, and the notes that
tell brokers of changes.

A user's quotas and SCRAM credentials stand in one znode. Whoever changes one reads first and writes
only over what was read: a quota and a password that are set at once both stay (AdminZkClient writes
blindly). An entity is named by its path below /config: `users/<name>/clients/<id>`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_plus

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import (
    BadVersionError,
    CreateMode,
    NodeExistsError,
    NoNodeError,
    StoreError,
)
from ottla.metadata.znodes import (
    DEFAULT_ENTITY,
    MAX_ZNODE_BYTES,
    ConfigChange,
    ConfigChangeZnode,
    ConfigZnode,
)

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore

USERS = "users"
_ATTEMPTS = 10

Configs = dict[str, str]


def sanitize(name: str) -> str:
    """A name as it stands in a path (Kafka's Sanitizer)."""
    return quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    return unquote_plus(name)


def user_path(name: str) -> str:
    return f"{USERS}/{sanitize(name)}"


async def user_names(store: MetadataStore) -> list[str]:
    """Every user that has a node, in the names of the znodes; the default for all users is none."""
    try:
        children = await store.children(ConfigZnode.path(USERS))
    except NoNodeError:
        return []
    return [child for child in children if child != DEFAULT_ENTITY]


async def read_entity(store: MetadataStore, entity_path: str) -> Configs:
    return (await _read(store, f"/config/{entity_path}"))[0]


async def change_entity(
    store: MetadataStore, entity_path: str, edit: Callable[[Configs], Configs]
) -> None:
    """Writes what `edit` makes of the configs and tells all brokers. `edit` may raise, and may be
    called again where somebody else was quicker. Raises INVALID_REQUEST for more than a znode
    holds."""
    path = f"/config/{entity_path}"
    for _ in range(_ATTEMPTS):
        configs, version = await _read(store, path)
        data = ConfigZnode.encode(edit(configs))
        if len(data) > MAX_ZNODE_BYTES:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"The configs have {len(data)} bytes together, at most {MAX_ZNODE_BYTES}.",
            )
        try:
            if version is None:
                await _create(store, path, data)
            else:
                await store.set(path, data, version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue
        break
    else:
        raise StoreError(path)
    note = ConfigChangeZnode.encode(ConfigChange(entity_path))
    await store.create(ConfigChangeZnode.path(), note, mode=CreateMode.PERSISTENT_SEQUENTIAL)


async def _read(store: MetadataStore, path: str) -> tuple[Configs, int | None]:
    """With the version of the node, None where there is none."""
    try:
        data, stat = await store.get(path)
    except NoNodeError:
        return {}, None
    return ConfigZnode.decode(data), stat.version


async def _create(store: MetadataStore, path: str, data: bytes) -> None:
    """With the nodes above it: those of a client's user, or all before any broker has started."""
    try:
        await store.create(path, data)
        return
    except NoNodeError:
        pass
    names = path.split("/")
    parents = ["/".join(names[:depth]) for depth in range(2, len(names))]
    for parent in (*parents, ConfigChangeZnode.parent()):
        try:
            await store.create(parent, b"")
        except NodeExistsError:
            continue
    await store.create(path, data)
