"""The ACLs of Kafka's znodes on every store: their owner's, and nobody else's."""

from __future__ import annotations

import pytest

from ottla.metadata.node_acls import SecuredStore, close_tree, is_open
from ottla.metadata.store import OPEN_ACL, Create, CreateMode, InvalidAclError, NoAuthError

BROKERS = b"ottla:secret"


async def test_what_a_broker_writes_is_its_own(store, other):
    await store.add_auth("digest", BROKERS)
    mine = SecuredStore(store)
    await mine.create("/config")
    await mine.create("/config/users")
    await mine.create("/consumers")
    made = await mine.multi(
        [
            Create("/config/users/alice", b"SCRAM"),
            Create("/config/topics", b"open to read"),
            Create("/config/changes_", b"", CreateMode.PERSISTENT_SEQUENTIAL),
        ]
    )
    assert [result.error for result in made] == [None] * 3
    assert (await other.get("/config/topics"))[0] == b"open to read"
    for refused in (
        other.get("/config/users/alice"),
        other.children("/config/users"),
        other.set("/config/topics", b""),
        other.create("/config/topics/t"),
        other.delete("/config/topics"),
        other.set_acl("/config/topics", OPEN_ACL),
    ):
        with pytest.raises(NoAuthError):
            await refused
    await other.create("/consumers/old", b"")
    await other.add_auth("digest", b"ottla:wrong")
    with pytest.raises(NoAuthError):
        await other.get("/config/users/alice")
    await other.add_auth("digest", BROKERS)
    assert (await other.get("/config/users/alice"))[0] == b"SCRAM"
    assert (await mine.get("/config/users/alice"))[0] == b"SCRAM"
    await mine.set("/config/topics", b"")
    await mine.delete("/config/topics")


async def test_nobody_owns_without_an_identity(store):
    with pytest.raises(InvalidAclError):
        await SecuredStore(store).create("/brokers")
    assert await store.exists("/brokers") is None


async def test_what_was_open_is_closed(store, other):
    for path in ("/brokers", "/brokers/topics", "/config", "/config/users", "/consumers", "/mine"):
        await store.create(path)
    await store.create("/controller", mode=CreateMode.EPHEMERAL)
    assert await is_open(store, "/brokers/topics") and not await is_open(store, "/no-such")
    await store.add_auth("digest", BROKERS)
    assert await close_tree(store) == 6
    assert await close_tree(store) == 0
    for path in ("/brokers", "/brokers/topics", "/config", "/controller", "/"):
        assert not await is_open(other, path)
    for refused in (
        other.get("/config/users"),
        other.delete("/controller"),
        other.create("/brokers/topics/t"),
        other.create("/evil"),
    ):
        with pytest.raises(NoAuthError):
            await refused
    # Not Kafka's: left as they were.
    assert await is_open(other, "/consumers") and await is_open(other, "/mine")
