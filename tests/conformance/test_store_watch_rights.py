"""Who hears of what: the same story on Apache ZooKeeper 3.8.4, which mended CVE-2024-23944, and on
our server, event by event."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ottla.metadata.store import OPEN_ACL, Acl
from ottla.testing import java
from ottla.zk import jute
from ottla.zk.server.acl import digest_identity
from tests.support.judges import need
from tests.support.store_attacks import (
    RudeClient,
    add_watch_body,
    auth_body,
    create_body,
    multi_body,
    path_body,
    store_process,
)

pytestmark = pytest.mark.peers

OWNER = b"owner:secret"
SECRET = (Acl(31, "digest", digest_identity(OWNER).id),)
# Others may make and delete nodes below, but not look.
BLIND = (*SECRET, Acl(30, "world", "anyone"))


def set_data(path: str) -> bytes:
    return jute.write_string(path) + jute.write_buffer(b"1") + jute.INT.pack(-1)


def delete(path: str) -> bytes:
    return jute.write_string(path) + jute.INT.pack(-1)


def set_acl(path: str, acl: tuple[Acl, ...]) -> bytes:
    return jute.write_string(path) + jute.write_acls(acl) + jute.INT.pack(-1)


def events_until(client: RudeClient, last: str) -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []
    while not seen or seen[-1][1] != last:
        xid, _, body = client.answer()
        if xid == -1:
            kind, _ = jute.EVENT_HEADER.unpack_from(body)
            seen.append((kind, jute.read_string(body, 8, len(body))[0]))
    return seen


def story(port: int) -> dict[str, list[tuple[int, str]]]:
    """What a stranger and the owner hear, through recursive and through plain watches."""
    top = f"/{uuid.uuid4().hex[:8]}"
    with RudeClient(port).open_session() as writer:
        writer.ask(jute.OP_AUTH, auth_body("digest", OWNER))
        for path, acl in (("", OPEN_ACL), ("/open", OPEN_ACL), ("/blind", BLIND)):
            assert writer.ask(jute.OP_CREATE, create_body(top + path, b"", 0, acl))[0] == 0
        listeners = {}
        for name in ("stranger recursive", "owner recursive", "stranger plain", "owner plain"):
            client = listeners[name] = RudeClient(port).open_session()
            if name.startswith("owner"):
                client.ask(jute.OP_AUTH, auth_body("digest", OWNER))
            if name.endswith("recursive"):
                client.ask(jute.OP_ADD_WATCH, add_watch_body(top, recursive=True))
                continue
            for path in ("/safe", "/open", "/end"):
                client.ask(jute.OP_EXISTS, path_body(top + path, watch=True))
            client.ask(jute.OP_GET_CHILDREN, path_body(top + "/open", watch=True))
            client.ask(jute.OP_GET_CHILDREN, path_body(top + "/blind", watch=True))
            client.ask(jute.OP_ADD_WATCH, add_watch_body(top + "/blind", recursive=False))
        steps = [
            (jute.OP_CREATE, create_body(f"{top}/safe", b"", 0, SECRET)),
            (jute.OP_CREATE, create_body(f"{top}/safe/in", b"", 0, SECRET)),
            (jute.OP_CREATE, create_body(f"{top}/safe/seen", b"", 0, OPEN_ACL)),
            (jute.OP_SET_DATA, set_data(f"{top}/safe/in")),
            (jute.OP_CREATE, create_body(f"{top}/blind/a", b"", 0, OPEN_ACL)),
            (jute.OP_SET_DATA, set_data(f"{top}/blind")),
            (jute.OP_SET_ACL, set_acl(f"{top}/open", SECRET)),
            (jute.OP_SET_DATA, set_data(f"{top}/open")),
            (jute.OP_CREATE, create_body(f"{top}/open/b", b"", 0, SECRET)),
            (
                jute.OP_MULTI,
                multi_body(
                    [
                        (jute.OP_DELETE, delete(f"{top}/safe/in")),
                        (jute.OP_DELETE, delete(f"{top}/safe/seen")),
                        (jute.OP_DELETE, delete(f"{top}/safe")),
                        (jute.OP_DELETE, delete(f"{top}/blind/a")),
                    ]
                ),
            ),
            (jute.OP_CREATE, create_body(f"{top}/end")),
        ]
        for operation, body in steps:
            assert writer.ask(operation, body)[0] == 0
        heard = {}
        for name, client in listeners.items():
            events = events_until(client, f"{top}/end")
            heard[name] = [(kind, path.removeprefix(top)) for kind, path in events]
            client.close()
        return heard


def test_the_same_is_heard_on_apache_zookeeper(apache, tmp_path: Path) -> None:
    need(java.missing_reason("zookeeper-3.8"))
    theirs = story(int(apache("zookeeper-3.8").address.rpartition(":")[2]))
    with store_process(tmp_path / "store") as ours:
        assert story(ours.port) == theirs
    created, deleted = 1, 2
    assert theirs["stranger recursive"] == [
        (created, "/safe/seen"),
        (created, "/blind/a"),
        (deleted, "/safe/seen"),
        (deleted, "/blind/a"),
        (created, "/end"),
    ]
    assert len(theirs["owner recursive"]) > len(theirs["stranger recursive"])
