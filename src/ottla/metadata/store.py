"""The metadata store port: ZooKeeper's model, whoever implements it.

Implementations: `zk/embedded.py` (in process), `zk/client/store.py` (any ZooKeeper-protocol
server). One conformance suite (tests/conformance) holds them to this text.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import NamedTuple, Protocol

from ottla.errors import OttlaError

ANY_VERSION = -1


class Stat(NamedTuple):
    """ZooKeeper's Stat, in wire order."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class StoreError(OttlaError):
    """An operation the store refused; `code` is ZooKeeper's."""

    code = -1

    def __init__(self, path: str = "") -> None:
        super().__init__(path)
        self.path = path


class RuntimeInconsistencyError(StoreError):
    """-2: an operation of a multi that was not tried because another one failed."""

    code = -2


class ConnectionLossError(StoreError):
    """The server went away before it answered; the operation may or may not have happened."""

    code = -4


class StoreUnreachableError(ConnectionLossError):
    """There is no session yet: none of the servers that were named answers. The text says why."""

    def __init__(self, servers: str, waited_ms: int, reason: str = "") -> None:
        super().__init__(servers)
        self._words = f"no ZooKeeper server answered at {servers} within {waited_ms / 1000:g} s"
        if reason:
            self._words += f": {reason}"

    def __str__(self) -> str:
        return self._words


class MarshallingError(StoreError):
    code = -5


class UnimplementedError(StoreError):
    code = -6


class OperationTimeoutError(StoreError):
    code = -7


class BadArgumentsError(StoreError):
    code = -8


class NoNodeError(StoreError):
    code = -101


class NoAuthError(StoreError):
    code = -102


class BadVersionError(StoreError):
    code = -103


class NoChildrenForEphemeralsError(StoreError):
    code = -108


class NodeExistsError(StoreError):
    code = -110


class NotEmptyError(StoreError):
    code = -111


class SessionExpiredError(StoreError):
    code = -112


class InvalidCallbackError(StoreError):
    code = -113


class InvalidAclError(StoreError):
    code = -114


class AuthFailedError(StoreError):
    code = -115


class SessionMovedError(StoreError):
    code = -118


class NoWatcherError(StoreError):
    code = -121


STORE_ERRORS: dict[int, type[StoreError]] = {cls.code: cls for cls in StoreError.__subclasses__()}


class EventType(IntEnum):
    CREATED = 1
    DELETED = 2
    DATA_CHANGED = 3
    CHILDREN_CHANGED = 4


class WatchEvent(NamedTuple):
    type: EventType
    path: str


class SessionState(Enum):
    CONNECTED = "connected"  # also after a reconnection that kept the session
    SUSPENDED = "suspended"  # connection lost, session may still live
    EXPIRED = "expired"  # ephemerals are gone; the client opens a new session by itself
    CLOSED = "closed"


Watcher = Callable[[WatchEvent], None]
SessionListener = Callable[[SessionState], None]


class CreateMode(IntEnum):
    """Wire flags of ZooKeeper's create."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


EPHEMERAL_MODES = frozenset((CreateMode.EPHEMERAL, CreateMode.EPHEMERAL_SEQUENTIAL))
SEQUENTIAL_MODES = frozenset(
    (
        CreateMode.PERSISTENT_SEQUENTIAL,
        CreateMode.EPHEMERAL_SEQUENTIAL,
        CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL,
    )
)
TTL_MODES = frozenset((CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL))
# What a request without a time to live says, where it has to say something.
NO_TTL = -1


class Acl(NamedTuple):
    perms: int
    scheme: str
    id: str


OPEN_ACL = (Acl(31, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes | None = None
    mode: CreateMode = CreateMode.PERSISTENT
    acl: tuple[Acl, ...] = OPEN_ACL
    ttl_ms: int = NO_TTL


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Op = Create | SetData | Delete | Check


@dataclass(frozen=True, slots=True)
class OpResult:
    """Outcome of one operation of a multi: the created path, the new stat, or the error.

    Of a node that was made, ZooKeeper before 3.6 does not tell the times: they are 0 there."""

    path: str | None = None
    stat: Stat | None = None
    error: StoreError | None = None


class MetadataStore(Protocol):
    """A connected session. Watches are one-shot and are called on the event loop, in order,
    before the answer to any later read shows the new state.

    A lost connection keeps the session: requests that were sent raise ConnectionLossError (they
    may have happened), later ones wait for the reconnection for at most a session time-out, and
    watches are set again. An expired session is replaced automatically; its ephemeral nodes and its
    watches are gone, and whoever needs them makes them again on CONNECTED. After `close` every
    call raises SessionExpiredError. An illegal path raises BadArgumentsError."""

    @property
    def session_id(self) -> int:
        """The current session (a new value after expiry)."""

    @property
    def session_timeout_ms(self) -> int:
        """As the server granted it, which may be more or less than was asked for."""

    def get(
        self, path: str, watch: Watcher | None = None
    ) -> Awaitable[tuple[bytes | None, Stat]]: ...

    async def exists(self, path: str, watch: Watcher | None = None) -> Stat | None: ...

    def children(self, path: str, watch: Watcher | None = None) -> Awaitable[list[str]]: ...

    async def sync(self, path: str = "/") -> None:
        """When it returns, reads show everything acknowledged anywhere before the call."""

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        mode: CreateMode = CreateMode.PERSISTENT,
        acl: tuple[Acl, ...] = OPEN_ACL,
        ttl_ms: int = NO_TTL,
    ) -> tuple[str, Stat]:
        """The path really made (sequential nodes get their number) and its stat.

        `ttl_ms` is for the modes with a TTL and only for them: such a node goes once it has no
        children and its data was not set for so long. UnimplementedError where the server does
        not have them (ZooKeeper needs extendedTypesEnabled)."""

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat: ...

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """All or nothing. A failed multi does not raise: each result carries its own error
        (the failing one its cause, the others RuntimeInconsistencyError)."""

    def add_session_listener(self, listener: SessionListener) -> None: ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes go at once."""
