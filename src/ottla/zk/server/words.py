"""Four-letter words: the plain-text questions that operators and clients ask on the same port."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

ALL_WORDS = frozenset(("conf", "cons", "envi", "isro", "mntr", "ruok", "srvr", "stat", "wchs"))

VERSION = "3.8.4-ottla"
# kazoo and ZooKeeper's own tools read the version out of this line.
_VERSION_LINE = f"Zookeeper version: {VERSION}, built on 01/01/2024 00:00 UTC"


@dataclass(slots=True)
class Status:
    """What the words tell about a server, taken at one moment."""

    port: int
    data_dir: str
    tick_ms: int
    min_timeout_ms: int
    max_timeout_ms: int
    connections: list[str]
    sessions: int
    received: int
    sent: int
    outstanding: int
    zxid: int
    nodes: int
    watches: int
    # Counted on demand: there may be a million.
    watched_paths: Callable[[], int]
    ephemerals: int
    uptime_ms: int


def answer(word: bytes, status: Callable[[], Status], allowed: Container[str]) -> bytes:
    """The text for a known word; its status is looked up only where it is told."""
    name = word.decode()
    if name not in allowed:
        return f"{name} is not executed because it is not in the whitelist.\n".encode()
    if word in _PLAIN_WORDS:
        return _PLAIN_WORDS[word].encode()
    return _WORDS[word](status()).encode()


def is_word(word: bytes) -> bool:
    return word in _WORDS or word in _PLAIN_WORDS


def _server_lines(status: Status) -> str:
    return (
        "Latency min/avg/max: 0/0.0/0\n"
        f"Received: {status.received}\n"
        f"Sent: {status.sent}\n"
        f"Connections: {len(status.connections)}\n"
        f"Outstanding: {status.outstanding}\n"
        f"Zxid: {status.zxid:#x}\n"
        "Mode: standalone\n"
        f"Node count: {status.nodes}\n"
    )


def _srvr(status: Status) -> str:
    return f"{_VERSION_LINE}\n{_server_lines(status)}"


def _stat(status: Status) -> str:
    clients = "".join(f" /{name}[1](queued=0,recved=0,sent=0)\n" for name in status.connections)
    return f"{_VERSION_LINE}\nClients:\n{clients}\n{_server_lines(status)}"


def _cons(status: Status) -> str:
    return "".join(f" /{name}[1](queued=0,recved=0,sent=0)\n" for name in status.connections) + "\n"


def _mntr(status: Status) -> str:
    rows = {
        "zk_version": VERSION,
        "zk_server_state": "standalone",
        "zk_uptime": status.uptime_ms,
        "zk_num_alive_connections": len(status.connections),
        "zk_outstanding_requests": status.outstanding,
        "zk_packets_received": status.received,
        "zk_packets_sent": status.sent,
        "zk_znode_count": status.nodes,
        "zk_watch_count": status.watches,
        "zk_ephemerals_count": status.ephemerals,
        "zk_global_sessions": status.sessions,
    }
    return "".join(f"{name}\t{value}\n" for name, value in rows.items())


def _conf(status: Status) -> str:
    rows = {
        "clientPort": status.port,
        "dataDir": status.data_dir,
        "tickTime": status.tick_ms,
        "minSessionTimeout": status.min_timeout_ms,
        "maxSessionTimeout": status.max_timeout_ms,
        "serverId": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in rows.items())


def _wchs(status: Status) -> str:
    return (
        f"{len(status.connections)} connections watching {status.watched_paths()} paths\n"
        f"Total watches:{status.watches}\n"
    )


_PLAIN_WORDS = {
    b"ruok": "imok",
    b"isro": "rw",
    b"envi": f"Environment:\nzookeeper.version={VERSION}, built on 01/01/2024 00:00 UTC\n",
}
_WORDS = {
    b"srvr": _srvr,
    b"stat": _stat,
    b"mntr": _mntr,
    b"conf": _conf,
    b"cons": _cons,
    b"wchs": _wchs,
}
