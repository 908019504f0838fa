"""The authoriser on a store in memory: loading, following, writing in a race."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode
from ottla.metadata.acl_znodes import AclZnode
from ottla.metadata.store import NoNodeError
from ottla.metadata.znode_values import BadZnodeError
from ottla.runtime import system_runtime
from ottla.security.acls import (
    AclEntry,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.security.authorizer import AclAuthorizer, AuthorizerSettings
from ottla.topics.names import shadow_name
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

TOPIC = ResourceType.TOPIC
PATTERN = ResourcePattern(TOPIC, "t")
READ = AclEntry("User:a", "*", Operation.READ, Permission.ALLOW)
WRITE = AclEntry("User:a", "*", Operation.WRITE, Permission.ALLOW)
EVERYTHING = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(system_runtime())
    await engine.start()
    yield engine
    await engine.stop()


class Impatient(random.Random):
    """Pauses of a millisecond between attempts."""

    def randint(self, a: int, b: int) -> int:
        assert (a, b) == (100, 150)
        return 1


def make(engine: Engine, *super_users: str, everyone: bool = False) -> AclAuthorizer:
    runtime = replace(system_runtime(), random=Impatient())
    settings = AuthorizerSettings(frozenset(super_users), everyone)
    return AclAuthorizer(runtime, EmbeddedStore(engine), settings)


async def until(condition: object, *, attempts: int = 200) -> None:
    for _ in range(attempts):
        if condition():  # type: ignore[operator]
            return
        await asyncio.sleep(0.005)
    raise AssertionError("not in time")


def may(authorizer: AclAuthorizer, operation: Operation, name: str = "t") -> bool:
    return authorizer.authorize("User:a", "h", operation, TOPIC, name, request="Test")


async def test_folders_are_made_and_what_is_there_is_loaded(engine: Engine) -> None:
    first = make(engine)
    await first.start()
    prefixed = ResourcePattern(TOPIC, "p", PatternType.PREFIXED)
    assert await first.create([(PATTERN, READ), (prefixed, WRITE)]) == [None, None]
    second = make(engine)
    await second.start()
    assert may(second, Operation.READ) and not may(second, Operation.WRITE)
    assert may(second, Operation.WRITE, "p1")
    store = EmbeddedStore(engine)
    types = await store.children("/kafka-acl")
    assert sorted(types) == ["Cluster", "DelegationToken", "Group", "Topic", "TransactionalId"]
    await first.stop()
    await second.stop()


async def test_kept_decisions_end_with_a_change(engine: Engine) -> None:
    one, two = make(engine), make(engine)
    await one.start()
    await two.start()
    assert not may(one, Operation.READ) and not may(two, Operation.READ)
    await one.create([(PATTERN, READ)])
    assert may(one, Operation.READ)
    await until(lambda: may(two, Operation.READ))
    removed = await two.delete([EVERYTHING])
    assert removed == [[(PATTERN, READ, None)]]
    assert not may(two, Operation.READ)
    await until(lambda: not may(one, Operation.READ))
    with pytest.raises(NoNodeError):
        await EmbeddedStore(engine).get(AclZnode.path(PATTERN))
    await one.stop()
    await two.stop()


async def test_super_users_need_no_acl(engine: Engine) -> None:
    authorizer = make(engine, "User:a")
    await authorizer.start()
    deny = AclEntry("User:a", "*", Operation.ALL, Permission.DENY)
    await authorizer.create([(PATTERN, deny)])
    assert may(authorizer, Operation.READ)
    assert authorizer.authorize_on_any("User:a", "h", Operation.WRITE, TOPIC)
    assert not authorizer.authorize_on_any("User:b", "h", Operation.WRITE, TOPIC)
    await authorizer.stop()


async def test_a_race_is_read_again(engine: Engine) -> None:
    """Another broker wrote between this one's read and its write."""
    authorizer = make(engine)
    await authorizer.start()
    await authorizer.create([(PATTERN, READ)])
    store = EmbeddedStore(engine)
    other = AclEntry("User:other", "*", Operation.READ, Permission.ALLOW)
    # Without a note, so that the authoriser still believes in the old version.
    await store.set(AclZnode.path(PATTERN), AclZnode.encode(frozenset({READ, other})))
    assert await authorizer.create([(PATTERN, WRITE)]) == [None]
    data, _ = await store.get(AclZnode.path(PATTERN))
    assert AclZnode.decode("", data) == {READ, other, WRITE} == authorizer.entries(PATTERN)
    await store.delete(AclZnode.path(PATTERN))
    assert await authorizer.create([(PATTERN, READ)]) == [None]
    data, _ = await store.get(AclZnode.path(PATTERN))
    assert AclZnode.decode("", data) == {READ}
    await authorizer.stop()


async def test_the_same_entry_again_leaves_no_note(engine: Engine) -> None:
    authorizer = make(engine)
    await authorizer.start()
    store = EmbeddedStore(engine)
    for _ in range(2):
        assert await authorizer.create([(PATTERN, READ)]) == [None]
        assert len(await store.children("/kafka-acl-changes")) == 1
    assert await authorizer.delete([EVERYTHING._replace(name="nothing")]) == [[]]
    assert len(await store.children("/kafka-acl-changes")) == 1
    await authorizer.stop()


async def test_a_bad_principal_fails_all_of_its_pattern(engine: Engine) -> None:
    authorizer = make(engine)
    await authorizer.start()
    bad = READ._replace(principal="nobody")
    other = ResourcePattern(TOPIC, "other")
    outcomes = await authorizer.create([(PATTERN, READ), (PATTERN, bad), (other, READ)])
    codes = [None if outcome is None else outcome.code for outcome in outcomes]
    assert codes == [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR, None]
    assert authorizer.entries(PATTERN) == frozenset()
    await authorizer.stop()


async def test_a_name_that_no_znode_can_have(engine: Engine) -> None:
    authorizer = make(engine)
    await authorizer.start()
    (outcome,) = await authorizer.create([(ResourcePattern(TOPIC, "a//b"), READ)])
    assert outcome is not None and outcome.code is ErrorCode.UNKNOWN_SERVER_ERROR
    await authorizer.stop()


async def test_garbage_stops_the_start_and_is_passed_over_later(engine: Engine) -> None:
    authorizer = make(engine)
    await authorizer.start()
    await authorizer.create([(PATTERN, READ)])
    store = EmbeddedStore(engine)
    await store.set(AclZnode.path(PATTERN), b"garbage")
    await store.create("/kafka-acl/Planet")
    with pytest.raises(BadZnodeError, match="/kafka-acl/Topic/t"):
        await make(engine).start()
    authorizer.on_new_session()
    other = ResourcePattern(TOPIC, "other")
    await authorizer.create([(other, READ)])
    assert may(authorizer, Operation.READ, "other")
    assert may(authorizer, Operation.READ)
    await authorizer.stop()


async def test_the_audit_log(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    authorizer = make(engine)
    await authorizer.start()
    await authorizer.create([(PATTERN, READ)])
    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        may(authorizer, Operation.READ)
        may(authorizer, Operation.WRITE)
        authorizer.authorize(
            "User:a", "h", Operation.WRITE, TOPIC, "t", request="Test", log_denied=False
        )
    lines = [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.name == "kafka.authorizer.logger"
    ]
    tail = (
        "from host = h on resource = Topic:LITERAL:t for request = Test with resourceRefCount = 1"
    )
    assert lines == [
        ("DEBUG", f"Principal = User:a is Allowed Operation = Read {tail}"),
        ("INFO", f"Principal = User:a is Denied Operation = Write {tail}"),
    ]
    await authorizer.stop()


async def test_refusals_of_one_kind_do_not_fill_the_audit_log(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    authorizer = make(engine)

    def is_allowed(principal: str, name: str) -> bool:
        return authorizer.authorize(principal, "h", Operation.READ, TOPIC, name, request="Test")

    with caplog.at_level(logging.INFO, "kafka.authorizer.logger"):
        assert not any(is_allowed("User:eve", "t") for _ in range(1000))
        assert not any(is_allowed("User:mallory", f"t{number}") for number in range(1000))
    assert len([line for line in caplog.messages if "User:eve" in line]) == 5
    assert len([line for line in caplog.messages if "User:mallory" in line]) == 100


async def test_a_shadow_is_for_those_who_may_use_its_topic(engine: Engine) -> None:
    """`*` allows all but what is denied by name, and a copy of that has another name."""
    authorizer = make(engine, "User:root")
    await authorizer.start()
    secret = ResourcePattern(TOPIC, "secret")
    deny = AclEntry("User:a", "*", Operation.READ, Permission.DENY)
    await authorizer.create([(ResourcePattern(TOPIC, "*"), READ), (secret, deny)])
    shadows = {
        name: shadow_name(bytes([number]) * 16, 7)
        for number, name in enumerate(["secret", "open", "gone"])
    }
    authorizer.shadowed_topic = {shadows["secret"]: "secret", shadows["open"]: "open"}.get

    def may_read(name: str, principal: str = "User:a") -> bool:
        return authorizer.authorize(principal, "h", Operation.READ, TOPIC, name, request="Fetch")

    assert may_read("open") and may_read(shadows["open"])
    assert not may_read("secret") and not may_read(shadows["secret"])
    assert not may_read(shadows["gone"]), "nobody knows whose records it has"
    assert may_read(shadows["gone"], "User:root")
    await authorizer.stop()
