"""Who may do what with Kafka's znodes where `zookeeper.set.acl` is true (ZkData.defaultAcls): their
creator everything, everybody else may read; users' credentials, brokers' configs and delegation
tokens are for the creator alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from ottla.metadata.store import (
    ANY_VERSION,
    NO_TTL,
    OPEN_ACL,
    Acl,
    Create,
    CreateMode,
    MetadataStore,
    NoNodeError,
    Op,
    OpResult,
    SessionListener,
    Stat,
)

_CREATOR_ALL = Acl(31, "auth", "")
_ANYONE_READS = Acl(1, "world", "anyone")
_PROTECTED = (_CREATOR_ALL, _ANYONE_READS)
_SECRET = (_CREATOR_ALL,)
# Consumers before Kafka 0.9 write there.
_OPEN_PATH = "/consumers"
_SENSITIVE_ROOTS = ("/config/users", "/config/brokers", "/delegation_token/tokens")
# ZkData.SecureRootPaths, and Ottla's own.
SECURE_ROOTS = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/delegation_token",
    "/feature",
    "/isr_change_notification",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended",
    "/kafka-acl-extended-changes",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/ottla",
)
_PERMISSIONS_BEYOND_READ = 30


def acl_for(path: str) -> tuple[Acl, ...]:
    """For a path without its chroot."""
    if path == _OPEN_PATH:
        return OPEN_ACL
    return _SECRET if path.startswith(_SENSITIVE_ROOTS) else _PROTECTED


class SecuredStore:
    """A `MetadataStore` on another one, which has proved who it is: what is made through it gets
    the ACLs of its path."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        # Reads are as they were, without a call in between.
        self.get = store.get
        self.exists = store.exists
        self.children = store.children
        self.set = store.set
        self.delete = store.delete

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def session_timeout_ms(self) -> int:
        return self._store.session_timeout_ms

    async def sync(self, path: str = "/") -> None:
        await self._store.sync(path)

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = NO_TTL,
    ) -> tuple[str, Stat]:
        chosen = acl_for(path) if acl is OPEN_ACL else acl
        return await self._store.create(path, data, mode=mode, acl=chosen, ttl_ms=ttl_ms)

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        return await self._store.multi(
            [
                Create(op.path, op.data, op.mode, acl_for(op.path), op.ttl_ms)
                if isinstance(op, Create) and op.acl is OPEN_ACL
                else op
                for op in ops
            ]
        )

    def add_session_listener(self, listener: SessionListener) -> None:
        self._store.add_session_listener(listener)

    async def close(self) -> None:
        await self._store.close()


class AclStore(MetadataStore, Protocol):
    """A store whose ACLs can be looked at and changed."""

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]: ...

    async def set_acl(
        self, path: str, acl: tuple[Acl, ...], version: int = ANY_VERSION
    ) -> Stat: ...


async def is_open(store: AclStore, path: str) -> bool:
    """Whether everybody may change the node."""
    try:
        acl, _ = await store.get_acl(path)
    except NoNodeError:
        return False
    return any(entry.scheme == "world" and entry.perms & _PERMISSIONS_BEYOND_READ for entry in acl)


async def close_tree(store: AclStore) -> int:
    """Gives every znode of Kafka the ACLs that it would get today, and the root as well: whoever
    may change that can remove /controller (ZkSecurityMigrator). The root comes last: where it is
    closed, all of this is done. Returns how many nodes were open."""
    if not await is_open(store, "/"):
        return 0
    changed = 0
    for root in SECURE_ROOTS:
        async for path in _walk(store, root):
            if await is_open(store, path):
                await store.set_acl(path, acl_for(path))
                changed += 1
    await store.set_acl("/", acl_for("/"))
    return changed + 1


async def _walk(store: MetadataStore, root: str) -> AsyncIterator[str]:
    waiting = [root]
    while waiting:
        path = waiting.pop()
        try:
            names = await store.children(path)
        except NoNodeError:
            continue
        yield path
        waiting += [f"{path}/{name}" for name in names]
