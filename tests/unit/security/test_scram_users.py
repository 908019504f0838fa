"""The credentials a broker knows, as the store's notes name users."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ottla.metadata.entity_configs import change_entity, user_path
from ottla.runtime import system_runtime
from ottla.security.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, TokenCredential
from ottla.security.scram_users import ScramUserCache
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

TEXT = "salt=YQ==,stored_key=Yg==,server_key=Yw==,iterations=5000"
KNOWN = ScramCredential(b"a", b"b", b"c", 5000)


@pytest.fixture
async def store() -> AsyncIterator[EmbeddedStore]:
    engine = Engine(system_runtime())
    await engine.start()
    yield EmbeddedStore(engine)
    await engine.stop()


async def test_all_at_the_start_and_one_by_one(store: EmbeddedStore) -> None:
    for name in ("a", "b/c"):
        await change_entity(store, user_path(name), lambda _: {SCRAM_SHA_256: TEXT})
    users = ScramUserCache()
    await users.load_all(store)
    assert users.find(SCRAM_SHA_256, "a") == users.find(SCRAM_SHA_256, "b/c") == KNOWN
    assert users.find(SCRAM_SHA_512, "a") is None

    await change_entity(store, user_path("a"), lambda _: {SCRAM_SHA_512: TEXT})
    await users.take(store, "users/a")
    assert users.find(SCRAM_SHA_256, "a") is None
    assert users.find(SCRAM_SHA_512, "a") == KNOWN

    await store.delete("/config/users/a")
    await users.take(store, "users/a")
    assert users.find(SCRAM_SHA_512, "a") is None


async def test_users_that_went_unseen(store: EmbeddedStore) -> None:
    """A broker that was away for longer than notes live reads all again."""
    users = ScramUserCache()
    for name in ("a", "b,c"):
        await change_entity(store, user_path(name), lambda _: {SCRAM_SHA_256: TEXT})
    await users.load_all(store)
    for name in ("a", "b%2Cc"):
        await store.delete(f"/config/users/{name}")
    await change_entity(store, user_path("d"), lambda _: {SCRAM_SHA_256: TEXT})
    await users.load_all(store)
    assert [users.find(SCRAM_SHA_256, name) for name in ("a", "b,c", "d")] == [None, None, KNOWN]


async def test_entities_that_are_no_users(store: EmbeddedStore) -> None:
    users = ScramUserCache()
    for path in ("users/<default>", "users/a/clients/c", "clients/a"):
        await change_entity(store, path, lambda _: {SCRAM_SHA_256: TEXT})
        await users.take(store, path)
    await users.load_all(store)
    assert [users.find(SCRAM_SHA_256, name) for name in ("<default>", "a", "c")] == [None] * 3


def test_garbage_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    users = ScramUserCache()
    users.set("a", {SCRAM_SHA_256: TEXT})
    users.set("a", {SCRAM_SHA_256: "secret garbage"})
    assert users.find(SCRAM_SHA_256, "a") is None
    assert "SCRAM-SHA-256 of user 'a' cannot be used" in caplog.text
    assert "garbage" not in caplog.text


def test_tokens_where_there_are_some() -> None:
    users = ScramUserCache()
    assert users.find_token(SCRAM_SHA_256, "id") is None
    token = TokenCredential(KNOWN, "owner", 1)

    class Tokens:
        def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
            return token if token_id == "id" else None

    users = ScramUserCache(Tokens())
    assert users.find_token(SCRAM_SHA_256, "id") is token
    assert users.find_token(SCRAM_SHA_256, "other") is None
