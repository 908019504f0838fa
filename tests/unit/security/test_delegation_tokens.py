"""Delegation tokens on a store in memory: two brokers, one truth."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.token_znodes import TokenZnode
from ottla.runtime import system_runtime
from ottla.security.delegation_tokens import DelegationTokens, TokenSettings
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine

SETTINGS = TokenSettings("key", 1_000, 100, 1)
OWNER, RENEWER = "User:owner", "User:renewer"


class Clock:
    def __init__(self) -> None:
        self.ms = 5_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> float:
        return float(self.ms)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(system_runtime())
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
async def brokers(engine: Engine, clock: Clock) -> AsyncIterator[list[DelegationTokens]]:
    runtime = replace(system_runtime(), clock=clock)
    both = [DelegationTokens(runtime, EmbeddedStore(engine), SETTINGS) for _ in range(2)]
    for tokens in both:
        await tokens.start(lambda: False)
    yield both
    for tokens in both:
        await tokens.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  the store's own turns
            await asyncio.sleep(0)


async def test_a_token_is_known_to_all_brokers(brokers: list[DelegationTokens]) -> None:
    one, other = brokers
    token = await one.create(OWNER, [RENEWER, RENEWER], 0)
    assert (token.issued_ms, token.expiry_ms, token.max_ms) == (5_000, 5_100, 6_000)
    assert token.renewers == (RENEWER,)
    await until(lambda: other.live(token.token_id) == token)
    secret = other.secret_of(token.token_id)
    assert secret == hmac.digest(b"key", token.token_id.encode(), hashlib.sha512)
    assert await other.renew(RENEWER, secret, 50) == 5_050
    await until(lambda: (one.live(token.token_id) or token).expiry_ms == 5_050)
    assert await one.expire(OWNER, secret, -1) == 5_000
    await until(lambda: other.live(token.token_id) is None)


@pytest.mark.parametrize(
    ("asked_ms", "max_ms"), [(-1, 6_000), (0, 6_000), (40, 5_040), (10**12, 6_000)]
)
async def test_how_long_it_may_live(
    brokers: list[DelegationTokens], asked_ms: int, max_ms: int
) -> None:
    token = await brokers[0].create(OWNER, [], asked_ms)
    assert (token.max_ms, token.expiry_ms) == (max_ms, min(max_ms, 5_100))


async def test_periods(brokers: list[DelegationTokens]) -> None:
    tokens = brokers[0]
    secret = tokens.secret_of((await tokens.create(OWNER, [], 0)).token_id)
    assert await tokens.renew(OWNER, secret, -1) == 5_100, "the usual one"
    assert await tokens.renew(OWNER, secret, 10**12) == 6_000, "never beyond the longest life"
    assert await tokens.expire(OWNER, secret, 0) == 5_000
    assert await tokens.expire(OWNER, secret, 10**12) == 6_000


async def test_refusals(brokers: list[DelegationTokens], clock: Clock) -> None:
    tokens = brokers[0]
    token = await tokens.create(OWNER, [RENEWER], 0)
    secret = tokens.secret_of(token.token_id)
    for call in (tokens.renew, tokens.expire):
        with pytest.raises(KafkaError) as refused:
            await call(OWNER, b"no secret", 1)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        with pytest.raises(KafkaError) as refused:
            await call("User:eve", secret, 1)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    clock.ms += 101
    assert tokens.live(token.token_id) is None
    for call in (tokens.renew, tokens.expire):
        with pytest.raises(KafkaError) as refused:
            await call(RENEWER, secret, 1)
        assert refused.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED


async def test_the_controller_removes_what_is_over(
    brokers: list[DelegationTokens], engine: Engine, clock: Clock
) -> None:
    token = await brokers[0].create(OWNER, [], 0)
    clock.ms += 101
    runtime = replace(system_runtime(), clock=clock)
    controller = DelegationTokens(runtime, EmbeddedStore(engine), SETTINGS)
    await controller.start(lambda: True)
    await until(lambda: not brokers[1].matching(None, lambda _: True))
    store = EmbeddedStore(engine)
    assert await store.exists(TokenZnode.path(token.token_id)) is None
    await controller.stop()


async def test_what_cannot_be_read_lets_nobody_in(
    brokers: list[DelegationTokens], engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = brokers[0]
    token = await tokens.create(OWNER, [], 0)
    await EmbeddedStore(engine).set(TokenZnode.path(token.token_id), b"{}", -1)
    await tokens._tell(token.token_id)
    await until(lambda: brokers[1].live(token.token_id) is None)
    again = DelegationTokens(system_runtime(), EmbeddedStore(engine), SETTINGS)
    await again.start(lambda: False)
    assert again.matching(None, lambda _: True) == []
    assert "a delegation token is passed over" in caplog.text
    await again.stop()


async def test_whose_are_found(brokers: list[DelegationTokens]) -> None:
    tokens = brokers[0]
    first = await tokens.create(OWNER, [RENEWER], 0)
    second = await tokens.create("User:other", [], 0)
    assert tokens.matching(None, lambda _: True) == [first, second]
    assert tokens.matching({RENEWER}, lambda _: True) == [first]
    assert tokens.matching(set(), lambda _: True) == []
    assert tokens.matching(None, lambda token: token.owner != OWNER) == [second]


def test_no_key_is_shown() -> None:
    assert "key" not in repr(SETTINGS)
