"""The page Znodes: what is in the store? Read only.

On a cluster with users the store is asked without anybody's credentials, and only for visitors who
may Alter the cluster: these can give themselves every right, so that nothing is shown to them that
they could not have otherwise. Hashes of passwords and tokens are shown to nobody.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import msgspec

from ottla.console.api.rights import needs
from ottla.console.web.failures import ApiError, invalid, not_found
from ottla.console.web.routes import Call, Route, command_line
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import (
    BadArgumentsError,
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
)
from ottla.runtime import system_runtime
from ottla.security.acls import Operation
from ottla.wire import messages as m

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from ottla.console.web.routes import Feed
    from ottla.metadata.store import Stat
    from ottla.zk.client.store import ZooKeeperClient

T = TypeVar("T")
CONNECT_TIMEOUT_MS = 5_000
MAX_CHILDREN = 1_000
MAX_SHOWN_BYTES = 256 * 1024
MAX_HEX_BYTES = 4_096
MAX_PATH_CHARS = 32_767
# Each look has a session of its own: the store need not remember anybody who has gone.
_SESSIONS = asyncio.Semaphore(8)
# What lies there is as good as a password (KIP-84, KIP-226, KIP-48). A cluster may have its root at
# any node, so these are looked for anywhere in a path.
_SECRET = ("/config/users/", "/config/brokers/", "/delegation_token/tokens/")
_SECRET_CONFIG = re.compile(r"^SCRAM-|password|secret|jaas|keystore\.key$", re.IGNORECASE)
_HIDDEN = "hidden: as good as a password"


class Query(msgspec.Struct):
    path: str = "/"
    # Of the children, by name.
    offset: int = 0
    limit: int = 200
    match: str = ""


class NodeStat(msgspec.Struct):
    """Ids as the store's own tools print them; times in milliseconds."""

    created_id: str
    modified_id: str
    children_id: str
    created_ms: int
    modified_ms: int
    version: int
    children_version: int
    acl_version: int
    ephemeral_owner: str | None
    data_bytes: int
    children: int


class Data(msgspec.Struct):
    """`kind` is none, empty, json, text or hex; `is_cut` where only the beginning is shown."""

    kind: str
    text: str = ""
    is_cut: bool = False
    is_hidden: bool = False


class Znode(msgspec.Struct):
    path: str
    stat: NodeStat | None
    # None where the store does not let this console read it.
    data: Data | None
    # Those that match, from `offset` on.
    children: list[str] | None
    matching: int
    command: str


async def look(call: Call) -> Znode:
    query: Query = call.query
    path = normalised(query.path)
    if not (query.offset >= 0 and 1 <= query.limit <= MAX_CHILDREN):
        raise invalid(f"offset is 0 or more, limit 1 to {MAX_CHILDREN}.", "limit")
    async with _session(call) as store:
        try:
            stat = await store.exists(path)
        except NoAuthError:  # ZOOKEEPER-2590: newer servers ask for the right to read here as well
            return Znode(path, None, None, None, 0, _command(call, path))
        if stat is None:
            raise not_found(f"There is no {path}.")
        read = await _or_none(_get(store, path))
        names = await _or_none(_children(store, path))
    wanted = query.match.lower()
    found = sorted(name for name in names or () if wanted in name.lower())
    return Znode(
        path,
        stat_of(stat),
        None if read is None else shown(path, read[0]),
        None if names is None else found[query.offset : query.offset + query.limit],
        len(found),
        _command(call, path),
    )


def _command(call: Call, path: str) -> str:
    return command_line("ottla", "zk", "get", path, "--zookeeper", call.settings.zookeeper)


def normalised(path: str) -> str:
    """Raises ApiError for what cannot be a path (ZooKeeper's PathUtils)."""
    if not path.startswith("/") or len(path) > MAX_PATH_CHARS:
        raise invalid("A path begins with /.", "path")
    parts = path.strip("/").split("/") if path.strip("/") else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise invalid("A path has names between its slashes.", "path")
    return "/" + "/".join(parts)


def stat_of(stat: Stat) -> NodeStat:
    return NodeStat(
        _id(stat.czxid),
        _id(stat.mzxid),
        _id(stat.pzxid),
        stat.ctime,
        stat.mtime,
        stat.version,
        stat.cversion,
        stat.aversion,
        _id(stat.ephemeral_owner) if stat.ephemeral_owner else None,
        stat.data_length,
        stat.num_children,
    )


def _id(number: int) -> str:
    return f"{number & 2**64 - 1:#x}"


def shown(path: str, data: bytes | None) -> Data:
    """As readable as it can be, and no more than a page can hold."""
    if data is None:
        return Data("none")
    if not data:
        return Data("empty")
    is_secret = any(part in path for part in _SECRET)
    if len(data) <= MAX_SHOWN_BYTES:
        try:
            value = json.loads(data)
            safe = _without_secrets(value) if is_secret else value
            text = json.dumps(safe, indent=2, ensure_ascii=False)
            return Data("json", text, is_hidden=safe != value)
        except (ValueError, RecursionError):
            pass
    if is_secret:
        return Data("text", _HIDDEN, is_hidden=True)
    beginning = data[:MAX_SHOWN_BYTES]
    try:
        # The cut may be in the middle of a character.
        text = beginning.decode("utf-8", "strict" if len(data) == len(beginning) else "ignore")
    except UnicodeDecodeError:
        text = "\0"
    if all(char.isprintable() or char in "\n\r\t" for char in text):
        return Data("text", text, is_cut=len(data) > len(beginning))
    return Data("hex", _dump(data[:MAX_HEX_BYTES]), is_cut=len(data) > MAX_HEX_BYTES)


def _without_secrets(value: object) -> object:
    """Quotas stand beside hashes, and a broker's threads beside its passwords."""
    config = value.get("config") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(config, dict):
        return _HIDDEN
    safe = {
        name: _HIDDEN if _SECRET_CONFIG.search(name) else setting
        for name, setting in config.items()
    }
    return {**value, "config": safe}


def _dump(data: bytes) -> str:
    lines = []
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)


async def _get(store: ZooKeeperClient, path: str) -> tuple[bytes | None, Stat]:
    return await store.get(path)


async def _children(store: ZooKeeperClient, path: str) -> list[str]:
    return await store.children(path)


async def _or_none(asked: Awaitable[T]) -> T | None:
    """None where the node's own ACL does not let everybody read, or it has gone meanwhile."""
    try:
        return await asked
    except (NoAuthError, NoNodeError):
        return None


@asynccontextmanager
async def _session(call: Call) -> AsyncIterator[ZooKeeperClient]:
    from ottla.zk.client.store import ZooKeeperClient
    from ottla.zk.credentials import digest_credentials

    settings = call.settings
    if settings.zookeeper is None:
        raise ApiError(
            404,
            "NO_STORE",
            "This console was not told of a ZooKeeper: start it with --zookeeper HOST:PORT. A "
            "cluster on KRaft has none.",
        )
    if settings.needs_login:
        await _require_alter(call)
    credentials = None if settings.needs_login else settings.zookeeper_credentials
    async with _SESSIONS:
        try:
            store = await ZooKeeperClient.connect(
                system_runtime(),
                settings.zookeeper,
                connect_timeout_ms=CONNECT_TIMEOUT_MS,
                credentials=digest_credentials(credentials),
            )
        except ConnectionLossError as error:
            raise ApiError(503, "UNREACHABLE", f"{error}.") from None
        try:
            yield store
        except BadArgumentsError:
            raise invalid("The store takes no such path.", "path") from None
        finally:
            await store.close()


async def _require_alter(call: Call) -> None:
    """Raises CLUSTER_AUTHORIZATION_FAILED (which `needs` puts into words)."""
    request = m.DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = await call.admin.cluster.send_to_any(request, timeout_ms=CONNECT_TIMEOUT_MS)
    bits = answer.cluster_authorized_operations
    # The lowest number stands for "not told".
    if answer.error_code or bits < 0 or not bits >> Operation.ALTER & 1:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


ROUTES = [
    Route(
        "GET",
        "/znodes",
        needs(Operation.ALTER, look),
        "A znode: data, stat, children",
        answer=Znode,
        query=Query,
    )
]
FEEDS: list[Feed] = []
