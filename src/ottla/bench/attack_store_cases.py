"""What rude clients do to the store: rows of `ottla bench attacks` and cases of tests/attacks."""

from __future__ import annotations

import contextlib
from typing import Any

from ottla.bench import attack_wire as wire
from ottla.bench.attack_cases import Attack, Bound, Traffic, descriptors
from ottla.zk import jute

BIG_NODE = "/big"
PARENT = "/many"
_BIG_BYTES = 1_000_000
_WATCHES = 960_000
_WATCHES_IN_A_PACKET = 96_000
_CHILDREN = 20_000


def _make_big(side: Any) -> None:
    with wire.StorePeer(side.port) as peer:
        peer.ask(jute.OP_CREATE, wire.create_body(BIG_NODE, bytes(_BIG_BYTES)))


def _make_many(side: Any) -> None:
    with wire.StorePeer(side.port) as peer:
        peer.ask(jute.OP_CREATE, wire.create_body(PARENT))
        creates = [
            wire.store_request(jute.OP_CREATE, wire.create_body(f"{PARENT}/{number:030}"))
            for number in range(_CHILDREN)
        ]
        for start in range(0, _CHILDREN, 500):
            peer.send(b"".join(creates[start : start + 500]))
            peer.count(500)


def _one_request(side: Any, operation: int, body: bytes, times: int = 1) -> Traffic:
    asked = wire.store_request(operation, body)
    with wire.StorePeer(side.port) as peer:
        peer.send(asked * times)
        return Traffic(len(asked) * times, peer.count(times))


def _multi_read(side: Any, _: contextlib.ExitStack) -> Traffic:
    return _one_request(side, jute.OP_MULTI_READ, wire.multi_read_body([BIG_NODE] * 1500))


def _multi_read_children(side: Any, _: contextlib.ExitStack) -> Traffic:
    head = jute.MULTI_HEADER.pack(jute.OP_GET_CHILDREN, False, -1)
    one = head + jute.write_string(PARENT) + b"\x00"
    return _one_request(side, jute.OP_MULTI_READ, one * 1500 + jute.END_OF_MULTI)


def _unread_gets(side: Any, stack: contextlib.ExitStack) -> Traffic:
    """Answers of a megabyte each, asked for on one connection that does not read them."""
    asked = wire.store_request(jute.OP_GET_DATA, jute.write_string(BIG_NODE) + b"\x00") * 500
    peers = [stack.enter_context(wire.StorePeer(side.port)) for _ in range(4)]
    for peer in peers:
        peer.send(asked)
    for peer in peers:
        peer.socket.recv(64)
    return Traffic(len(asked) * len(peers), 64 * len(peers))


def _watches(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Sets them, is gone, and waits until a new client is served."""
    sent = 0
    with wire.StorePeer(side.port) as peer:
        for start in range(0, _WATCHES, _WATCHES_IN_A_PACKET):
            paths = [f"/{number:x}" for number in range(start, start + _WATCHES_IN_A_PACKET)]
            body = jute.LONG.pack(0) + jute.write_strings([]) + jute.write_strings(paths)
            asked = wire.store_request(
                jute.OP_SET_WATCHES, body + jute.write_strings([]), jute.XID_SET_WATCHES
            )
            sent += len(asked)
            peer.send(asked)
            if not peer.count(1):
                break
    wire.StorePeer(side.port).socket.close()
    return Traffic(sent)


def _connections(side: Any, stack: contextlib.ExitStack) -> Traffic:
    for _ in range(descriptors(500)):
        with contextlib.suppress(ConnectionError, TimeoutError):
            stack.enter_context(wire.StorePeer(side.port, wait_s=1.0))
    return Traffic(0)


def _identities(side: Any, _: contextlib.ExitStack) -> Traffic:
    sent = answered = 0
    with wire.StorePeer(side.port) as peer:
        for start in range(0, 20_000, 500):
            asked = b"".join(
                wire.store_request(
                    jute.OP_AUTH,
                    jute.INT.pack(0)
                    + jute.write_string("digest")
                    + jute.write_buffer(f"u{number}:{'p' * 200}".encode()),
                    jute.XID_AUTH,
                )
                for number in range(start, start + 500)
            )
            sent += len(asked)
            peer.send(asked)
            answered += (got := peer.count(500))
            if not got:
                break
    return Traffic(sent, answered)


def _count_children(side: Any, _: contextlib.ExitStack) -> Traffic:
    body = jute.write_string("/")
    return _one_request(side, jute.OP_GET_ALL_CHILDREN_NUMBER, body, 500)


def _long_paths(side: Any, _: contextlib.ExitStack) -> Traffic:
    """Paths of a megabyte, to be made, watched and asked for."""
    path = "/" + "p" * 900_000
    sent = answered = 0
    for operation, body in (
        (jute.OP_CREATE, wire.create_body(path, flags=1)),
        (jute.OP_EXISTS, jute.write_string(path) + b"\x01"),
        (jute.OP_ADD_WATCH, jute.write_string(path) + jute.INT.pack(1)),
    ):
        for _number in range(10):
            traffic = _one_request(side, operation, body)
            sent += traffic.sent
            answered += traffic.answered
    return Traffic(sent, answered)


STORE_ATTACKS = (
    Attack(
        "store-multi-read",
        "multiRead of a node of 1 MB 1,500 times",
        "27 KB: 2.9 GB",
        _multi_read,
        prepare=_make_big,
    ),
    Attack(
        "store-multi-read-children",
        f"multiRead of {_CHILDREN:,} children 1,500 times",
        "1.5 s, 2 GB",
        _multi_read_children,
        prepare=_make_many,
    ),
    Attack(
        "store-unread",
        "2,000 answers of 1 MB that nobody reads",
        "1.9 s, 2.5 GB",
        _unread_gets,
        Bound(memory_mb=96),
        prepare=_make_big,
    ),
    Attack(
        "store-watches",
        f"the end of a connection with {_WATCHES:,} watches",
        "3.5 s in one turn",
        _watches,
        Bound(memory_mb=400, cpu_s=10),
    ),
    Attack("store-connections", "500 connections of one address", "all were kept", _connections),
    Attack("store-identities", "20,000 digest identities on one connection", "4.5 s", _identities),
    Attack(
        "store-count-children",
        f"counting {_CHILDREN:,} nodes 500 times",
        "0.9 s in one turn",
        _count_children,
        prepare=_make_many,
    ),
    Attack("store-long-paths", "30 paths of 900 KB", "", _long_paths),
)
