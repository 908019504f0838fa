"""One suite for the metadata store port, whoever implements it (STYLE: trio's check_streams)."""

from __future__ import annotations

import asyncio
import time

import pytest

from ottla.metadata.store import (
    OPEN_ACL,
    Acl,
    BadArgumentsError,
    BadVersionError,
    Check,
    Create,
    CreateMode,
    Delete,
    EventType,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RuntimeInconsistencyError,
    SessionExpiredError,
    SessionState,
    SetData,
    WatchEvent,
)
from ottla.zk import jute
from ottla.zk.client import replies
from tests.support.conformance.store_backends import SUPER_USER, until

PERSISTENT_SEQUENTIAL = CreateMode.PERSISTENT_SEQUENTIAL


async def test_a_node_is_made_and_read(store):
    path, made = await store.create("/a", b"data")
    data, stat = await store.get("/a")
    assert (path, data) == ("/a", b"data")
    assert stat == made
    assert stat.czxid == stat.mzxid == stat.pzxid > 0
    assert stat.ctime == stat.mtime > 0
    assert (stat.version, stat.cversion, stat.aversion) == (0, 0, 0)
    assert (stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 4, 0)
    assert await store.exists("/a") == stat


async def test_a_missing_node_is_told_apart(store):
    for operation in (
        store.get("/none"),
        store.children("/none"),
        store.set("/none", b""),
        store.delete("/none"),
        store.create("/none/child"),
        store.get_acl("/none"),
        store.set_acl("/none", OPEN_ACL),
    ):
        with pytest.raises(NoNodeError):
            await operation
    assert await store.exists("/none") is None


async def test_an_error_names_the_path(store):
    with pytest.raises(NoNodeError) as caught:
        await store.get("/none")
    assert caught.value.path == "/none"


async def test_a_node_is_made_once(store):
    await store.create("/a")
    with pytest.raises(NodeExistsError):
        await store.create("/a")
    with pytest.raises(NodeExistsError):
        await store.create("/")


async def test_no_data_and_empty_data_differ(store):
    await store.create("/null")
    await store.create("/empty", b"")
    assert (await store.get("/null"))[0] is None
    assert (await store.get("/empty"))[0] == b""
    assert (await store.get("/null"))[1].data_length == 0
    await store.set("/empty", None)
    assert (await store.get("/empty"))[0] is None


async def test_versions_guard_changes(store):
    _, made = await store.create("/a", b"0")
    changed = await store.set("/a", b"1", 0)
    assert (changed.version, changed.czxid, changed.ctime) == (1, made.czxid, made.ctime)
    assert changed.mzxid > made.mzxid
    assert changed.pzxid == made.pzxid
    for operation in (store.set("/a", b"2", 0), store.delete("/a", 0), store.set("/a", b"", 7)):
        with pytest.raises(BadVersionError):
            await operation
    assert (await store.set("/a", b"2")).version == 2
    await store.delete("/a", 2)
    assert await store.exists("/a") is None


async def test_a_parent_counts_its_children(store):
    _, parent = await store.create("/p")
    _, first = await store.create("/p/a")
    await store.create("/p/b")
    stat = await store.exists("/p")
    assert (stat.cversion, stat.num_children, stat.version) == (2, 2, 0)
    assert stat.pzxid > first.czxid
    assert stat.mzxid == parent.mzxid
    await store.delete("/p/a")
    after = await store.exists("/p")
    assert (after.cversion, after.num_children) == (3, 1)
    assert after.pzxid > stat.pzxid
    await store.set("/p/b", b"x")
    assert await store.exists("/p") == after
    assert await store.children("/p") == ["b"]
    with pytest.raises(NotEmptyError):
        await store.delete("/p")


async def test_sequential_nodes_are_numbered_by_creations(store):
    await store.create("/q")
    paths = [(await store.create("/q/n-", mode=PERSISTENT_SEQUENTIAL))[0] for _ in range(2)]
    assert paths == ["/q/n-0000000000", "/q/n-0000000001"]
    for path in paths:
        await store.delete(path)
    await store.create("/q/plain")
    # Deletions do not count, plain creations do.
    assert (await store.create("/q/", mode=PERSISTENT_SEQUENTIAL))[0] == "/q/0000000003"
    assert (await store.exists("/q")).cversion == 6


async def test_ephemeral_nodes_go_with_their_session(backend, store):
    owner = await backend.open()
    await store.create("/e")
    _, stat = await owner.create("/e/one", mode=CreateMode.EPHEMERAL)
    path, _ = await owner.create("/e/n-", mode=CreateMode.EPHEMERAL_SEQUENTIAL)
    assert stat.ephemeral_owner == owner.session_id != 0
    assert path == "/e/n-0000000001"
    with pytest.raises(NoChildrenForEphemeralsError):
        await owner.create("/e/one/below")
    await owner.close()
    assert await store.children("/e") == []
    assert (await store.exists("/e")).cversion == 4


async def test_containers_hold_children(store):
    _, stat = await store.create("/box", b"", mode=CreateMode.CONTAINER)
    assert stat.ephemeral_owner == 0
    await store.create("/box/in")
    assert await store.children("/box") == ["in"]


async def test_a_node_with_a_ttl_goes_once_it_is_idle(store, other):
    """It stays while it has children; its time begins anew when its data is set."""
    heard = []
    mode = CreateMode.PERSISTENT_WITH_TTL
    _, stat = await store.create("/parent", b"", mode=mode, ttl_ms=1)
    await store.create("/parent/child", b"")
    assert stat.ephemeral_owner == 0, "of a session, but not of this kind"
    await store.create("/lives", b"", mode=mode, ttl_ms=60_000)
    path, _ = await store.create(
        "/t-", b"", mode=CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL, ttl_ms=400
    )
    assert path.startswith("/t-00")
    await store.exists(path, heard.append)
    # Not of the session that made it.
    await other.set(path, b"x")
    await until(lambda: heard)
    assert heard == [WatchEvent(EventType.DATA_CHANGED, path)]
    before = (await store.exists(path, heard.append)).mtime
    await until(lambda: len(heard) == 2)
    assert heard[1] == WatchEvent(EventType.DELETED, path)
    assert time.time() * 1000 - before > 400
    assert await store.exists("/lives") is not None
    assert await store.exists("/parent") is not None, "its time was over long before"
    await store.children("/", heard.append)
    await store.exists("/parent", heard.append)
    await store.delete("/parent/child")
    await until(lambda: WatchEvent(EventType.DELETED, "/parent") in heard)


@pytest.mark.parametrize("ttl_ms", [0, -1, -5, 1 << 40, (1 << 63) - 1])
async def test_a_ttl_out_of_range_is_refused(store, ttl_ms):
    for mode in (CreateMode.PERSISTENT_WITH_TTL, CreateMode.PERSISTENT_SEQUENTIAL_WITH_TTL):
        with pytest.raises(BadArgumentsError):
            await store.create("/t", mode=mode, ttl_ms=ttl_ms)
    result = (await store.multi([Create("/t", None, mode, ttl_ms=ttl_ms)]))[0]
    assert isinstance(result.error, BadArgumentsError)
    assert await store.exists("/t") is None
    await store.create("/most", mode=CreateMode.PERSISTENT_WITH_TTL, ttl_ms=(1 << 40) - 1)


async def test_a_ttl_is_for_its_modes_only(store):
    for mode in (CreateMode.PERSISTENT, CreateMode.EPHEMERAL, CreateMode.CONTAINER):
        with pytest.raises(BadArgumentsError):
            await store.create("/t", mode=mode, ttl_ms=1000)
    assert await store.exists("/t") is None


async def test_the_super_user_passes_every_acl(store, other):
    await store.add_auth("digest", b"alice:secret")
    await store.create("/hers", b"", acl=(Acl(31, "auth", ""),))
    await store.create("/closed", b"", acl=(Acl(1, "ip", "10.0.0.1"),))
    await other.add_auth("digest", b"super:wrong")
    with pytest.raises(NoAuthError):
        await other.get("/hers")
    await other.add_auth("digest", SUPER_USER)
    for path in ("/hers", "/closed"):
        await other.get(path)
        await other.set(path, b"x")
        await other.create(f"{path}/child")
        await other.delete(f"{path}/child")
        acl, _ = await other.get_acl(path)
        assert not acl[0].id.endswith(":x"), "whoever may do everything sees the digests"
        await other.set_acl(path, acl)
    # What it makes for `auth` is its own, by its digests: being super is nothing to be granted.
    await other.create("/mine", acl=(Acl(31, "auth", ""),))
    shown, _ = await other.get_acl("/mine")
    assert {entry.scheme for entry in shown} == {"digest"}
    await other.set_acl("/closed", OPEN_ACL)
    assert (await store.get("/closed"))[0] == b"x"


async def test_a_multi_does_everything(store):
    await store.create("/m", b"0")
    results = await store.multi(
        [
            Check("/m", 0),
            SetData("/m", b"1"),
            Create("/m/a", b"x"),
            Create("/m/n-", b"", PERSISTENT_SEQUENTIAL),
            SetData("/m/a", b"yy", 0),
            Create("/m/gone"),
            Delete("/m/gone"),
        ]
    )
    assert [result.error for result in results] == [None] * 7
    assert results[2].path == "/m/a"
    assert results[3].path == "/m/n-0000000001"
    assert results[1].stat.version == 1
    assert (results[4].stat.version, results[4].stat.data_length) == (1, 2)
    assert len({results[i].stat.mzxid for i in (1, 2, 3, 4)}) == 1, "one transaction"
    assert sorted(await store.children("/m")) == ["a", "n-0000000001"]


async def test_a_multi_tells_what_the_nodes_it_made_show(store):
    results = await store.multi(
        [
            Create("/m", b"four"),
            Create("/m/e-", None, CreateMode.EPHEMERAL_SEQUENTIAL),
            Create("/box", b"", CreateMode.CONTAINER),
            Create("/t", b"", CreateMode.PERSISTENT_WITH_TTL, ttl_ms=60_000),
        ]
    )
    # Children count from here on.
    assert (results[0].stat.cversion, results[0].stat.num_children) == (0, 0)
    for result in results[1:]:
        shown = await store.exists(result.path)
        # ZooKeeper before 3.6 does not say when, in a multi.
        if result.stat.ctime == 0:
            shown = shown._replace(ctime=0, mtime=0)
        assert result.stat == shown
    assert results[0].stat.data_length == 4
    assert results[1].stat.ephemeral_owner == store.session_id


@pytest.mark.parametrize(
    "backend", ["server", pytest.param("apache", marks=pytest.mark.peers)], indirect=True
)
async def test_a_multi_answers_creates_in_two_kinds_only(store):
    """A client of Apache's drops the connection at any other (MultiResponse)."""
    asked = [
        (jute.OP_CREATE, replies.encode_create(store._chroot.full("/a"), b"", OPEN_ACL, 0)),
        (jute.OP_CREATE2, replies.encode_create(store._chroot.full("/b"), b"", OPEN_ACL, 0)),
        (
            jute.OP_CREATE_CONTAINER,
            replies.encode_create(store._chroot.full("/c"), b"", OPEN_ACL, 4),
        ),
        (
            jute.OP_CREATE_TTL,
            replies.encode_create(store._chroot.full("/d"), b"", OPEN_ACL, 5, 9000),
        ),
    ]
    body = await store._session.send(
        "", jute.OP_MULTI, replies.encode_multi(asked), lambda buffer, start, end: buffer[start:end]
    )
    kinds, position = [], 0
    while not body[position + 4]:
        kinds.append(jute.INT.unpack_from(body, position)[0])
        _, position = jute.read_string(body, position + jute.MULTI_HEADER.size, len(body))
        position += 0 if kinds[-1] == jute.OP_CREATE else jute.STAT.size
    assert kinds == [jute.OP_CREATE] + [jute.OP_CREATE2] * 3
    assert body[position:] == jute.END_OF_MULTI


async def test_a_multi_does_nothing_when_one_fails(store):
    await store.create("/m", b"0")
    await store.create("/m/full")
    before = await store.exists("/m")
    results = await store.multi(
        [
            Create("/m/a"),
            Delete("/m/full"),
            SetData("/m", b"1"),
            Check("/m", 0),
            Create("/m/b"),
        ]
    )
    kinds = [type(result.error) for result in results]
    assert kinds == [RuntimeInconsistencyError] * 3 + [BadVersionError, RuntimeInconsistencyError]
    assert results[3].error.path == "/m"
    assert all(result.path is None and result.stat is None for result in results)
    assert await store.exists("/m") == before
    assert await store.children("/m") == ["full"]
    assert (await store.get("/m"))[0] == b"0"
    assert (await store.create("/m/n-", mode=PERSISTENT_SEQUENTIAL))[0] == "/m/n-0000000001"


async def test_a_failed_multi_fires_no_watch(store, other):
    await store.create("/m")
    heard = []
    await store.children("/m", heard.append)
    await other.multi([Create("/m/a"), Delete("/none")])
    await store.sync()
    assert heard == []


async def test_an_empty_multi_is_nothing(store):
    assert await store.multi([]) == []


async def test_watches_fire_once_and_by_kind(store, other):
    await store.create("/w", b"")
    heard = []
    await store.get("/w", heard.append)
    await store.children("/w", heard.append)
    await other.create("/w/child")
    await other.set("/w", b"1")
    await other.set("/w", b"2")
    await other.create("/w/more")
    await store.sync("/w")
    assert sorted(heard) == [
        WatchEvent(EventType.DATA_CHANGED, "/w"),
        WatchEvent(EventType.CHILDREN_CHANGED, "/w"),
    ]


async def test_exists_watches_the_coming_and_going(store, other):
    heard = []
    assert await store.exists("/x", heard.append) is None
    await other.create("/x")
    await store.sync("/")
    assert heard == [WatchEvent(EventType.CREATED, "/x")]
    await store.exists("/x", heard.append)
    await other.delete("/x")
    await store.sync("/")
    assert heard[1:] == [WatchEvent(EventType.DELETED, "/x")]


async def test_a_deletion_is_told_once_to_one_watcher(store, other):
    await store.create("/p")
    await store.create("/p/x")
    heard, parent_heard = [], []
    await store.get("/p/x", heard.append)
    await store.children("/p/x", heard.append)
    await store.exists("/p/x", heard.append)
    await store.children("/p", parent_heard.append)
    await other.delete("/p/x")
    await store.sync("/p")
    assert heard[0] == WatchEvent(EventType.DELETED, "/p/x")
    assert set(heard) == {heard[0]}
    assert parent_heard == [WatchEvent(EventType.CHILDREN_CHANGED, "/p")]


async def test_the_same_watcher_counts_once(store, other):
    await store.create("/w")
    heard = []
    watcher = heard.append
    for _ in range(3):
        await store.get("/w", watcher)
    await other.set("/w", b"1")
    await store.sync("/w")
    assert len(heard) == 1


async def test_a_failed_read_sets_no_watch(store, other):
    heard = []
    with pytest.raises(NoNodeError):
        await store.get("/later", heard.append)
    with pytest.raises(NoNodeError):
        await store.children("/later", heard.append)
    await other.create("/later")
    await store.sync("/")
    assert heard == []


async def test_an_event_comes_before_the_answer_that_shows_the_change(store, other):
    await store.create("/w", b"old")
    for round_number in range(20):
        heard = []
        await store.get("/w", heard.append)
        new = str(round_number).encode()
        writing = asyncio.ensure_future(other.set("/w", new))
        while (await store.get("/w"))[0] != new:
            pass
        assert heard == [WatchEvent(EventType.DATA_CHANGED, "/w")]
        await writing


async def test_own_changes_are_heard_too(store):
    await store.create("/w")
    heard = []
    await store.children("/w", heard.append)
    await store.create("/w/a")
    assert heard == [WatchEvent(EventType.CHILDREN_CHANGED, "/w")]


async def test_a_failing_watcher_harms_nobody(store, other):
    def broken(event):
        raise RuntimeError("watcher")

    heard = []
    await store.create("/w")
    await store.get("/w", broken)
    await store.get("/w", heard.append)
    await other.set("/w", b"1")
    await store.sync("/w")
    assert len(heard) == 1


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//a", "/a//b", "/.", "/a/..", "/a\0", "/a\x1f", "/\ud7ff\ue000"]
)
async def test_bad_paths_are_refused(store, path):
    for operation in (
        store.create(path),
        store.get(path),
        store.exists(path),
        store.children(path),
        store.set(path, b""),
        store.delete(path),
        store.multi([Create(path)]),
    ):
        with pytest.raises(BadArgumentsError):
            await operation


async def test_unicode_paths_and_any_bytes(store):
    data = bytes(range(256))
    await store.create("/käfka-甲", data)
    assert (await store.get("/käfka-甲"))[0] == data
    assert await store.children("/") == ["käfka-甲"] or "käfka-甲" in await store.children("/")


async def test_oversize_data_is_refused_and_nothing_else_suffers(store):
    await store.create("/small")
    big = bytes(0xFFFFF)
    with pytest.raises(BadArgumentsError):
        await store.create("/big", big)
    with pytest.raises(BadArgumentsError):
        await store.set("/small", big)
    await store.create("/large", bytes(1000 * 1000))
    assert len((await store.get("/large"))[0]) == 1000 * 1000
    assert await store.exists("/big") is None


async def test_many_requests_in_flight_keep_their_order(store):
    await store.create("/n", b"")
    await asyncio.gather(*(store.create(f"/n/{i}", str(i).encode()) for i in range(1500)))
    answers = await asyncio.gather(*(store.get(f"/n/{i}") for i in range(1500)))
    assert [data for data, _ in answers] == [str(i).encode() for i in range(1500)]
    zxids = [stat.czxid for _, stat in answers]
    assert zxids == sorted(zxids)


async def test_acls_by_digest(store, other):
    await store.add_auth("digest", b"alice:secret")
    mine = (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
    await store.create("/acl", b"x", acl=mine)
    acl, stat = await store.get_acl("/acl")
    assert acl[0].scheme == "digest"
    assert acl[0].id.startswith("alice:")
    assert stat.aversion == 0
    assert (await other.get("/acl"))[0] == b"x"
    for operation in (
        other.set("/acl", b"y"),
        other.create("/acl/below"),
        other.set_acl("/acl", OPEN_ACL),
    ):
        with pytest.raises(NoAuthError):
            await operation
    masked, _ = await other.get_acl("/acl")
    assert masked[0].id == "alice:x"
    assert (await store.set_acl("/acl", OPEN_ACL, 0)).aversion == 1
    await other.set("/acl", b"y")


async def test_reading_may_be_forbidden(backend, store, other):
    await store.add_auth("digest", b"alice:secret")
    await store.create("/secret", b"x", acl=(Acl(31, "auth", ""),))
    for operation in (other.get("/secret"), other.children("/secret"), other.get_acl("/secret")):
        with pytest.raises(NoAuthError):
            await operation
    if backend.name == "apache-3.5.9":
        # Before ZOOKEEPER-2590 anyone was told a stat.
        assert (await other.exists("/secret")).data_length == 1
    else:
        with pytest.raises(NoAuthError):
            await other.exists("/secret")
    # Whoever may delete in the parent may delete the node.
    await other.delete("/secret")


@pytest.mark.parametrize(
    "acl", [(), (Acl(31, "auth", ""),), (Acl(31, "nobody", "x"),), (Acl(31, "world", "someone"),)]
)
async def test_impossible_acls_are_refused(store, acl):
    with pytest.raises(InvalidAclError):
        await store.create("/acl", acl=acl)
    assert await store.exists("/acl") is None


async def test_an_expired_session_is_replaced(backend, store, other):
    states, heard = [], []
    await store.create("/p")
    await store.create("/p/e", mode=CreateMode.EPHEMERAL)
    await store.get("/p", heard.append)
    store.add_session_listener(states.append)
    old = store.session_id
    await backend.expire(store)
    # It may get its session back for a moment, while the one who ends it hangs up.
    await until(lambda: SessionState.EXPIRED in states and states[-1] is SessionState.CONNECTED)
    after = states[states.index(SessionState.EXPIRED) :]
    assert [state for state in after if state is not SessionState.SUSPENDED] == [
        SessionState.EXPIRED,
        SessionState.CONNECTED,
    ]
    assert store.session_id not in (0, old)
    assert await other.children("/p") == []
    # Watches end with their session.
    await other.set("/p", b"1")
    await store.sync("/p")
    assert heard == []
    _, stat = await store.create("/p/e", mode=CreateMode.EPHEMERAL)
    assert stat.ephemeral_owner == store.session_id


async def test_a_closed_store_says_so(backend):
    store = await backend.open()
    states = []
    store.add_session_listener(states.append)
    await store.close()
    await store.close()
    assert states == [SessionState.CLOSED]
    with pytest.raises(SessionExpiredError):
        await store.get("/")


async def test_zxids_only_grow(store, other):
    _, first = await store.create("/a")
    _, second = await other.create("/b")
    third = await store.set("/a", b"")
    assert first.czxid < second.czxid < third.mzxid
