"""Keys that are read at the start, now and then, and sooner where a token asks for it."""

from __future__ import annotations

import asyncio

import pytest

from ottla.config.definitions import ConfigError
from ottla.runtime import SystemClock
from ottla.security.sasl.oauth import keys as keys_module
from ottla.security.sasl.oauth.keys import TokenKeys
from ottla.security.sasl.oauth.validation import OAuthSettings, TokenRefused, UnknownKey
from tests.support.oauth import Issuer

SETTINGS = OAuthSettings("https://keys")


class Address:
    def __init__(self, document: bytes) -> None:
        self.document = document
        self.error: OSError | None = None
        self.reads = 0
        self.was_read = asyncio.Event()

    async def fetch(self, url: str) -> bytes:
        assert url == SETTINGS.jwks_url
        self.reads += 1
        self.was_read.set()
        if self.error is not None:
            raise self.error
        return self.document

    async def next_read(self) -> None:
        self.was_read.clear()
        async with asyncio.timeout(5):
            await self.was_read.wait()
        await asyncio.sleep(0)


async def test_a_new_key_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys_module, "_MIN_PAUSE_S", 0.01)
    old, new = Issuer("old"), Issuer("new")
    address = Address(old.jwks())
    keys = TokenKeys(SETTINGS, SystemClock(), address.fetch)
    await keys.start()
    assert keys.check(old.token()).subject == "alice"
    address.document = new.jwks()
    with pytest.raises(UnknownKey):
        keys.check(new.token())
    await address.next_read()
    assert keys.check(new.token()).subject == "alice"
    with pytest.raises(TokenRefused):
        keys.check(old.token())
    assert address.reads == 2
    await keys.stop()


async def test_strangers_do_not_make_it_ask_often() -> None:
    issuer, stranger = Issuer(), Issuer("x")
    address = Address(issuer.jwks())
    keys = TokenKeys(SETTINGS, SystemClock(), address.fetch)
    await keys.start()
    token = stranger.token()
    for _ in range(100):
        with pytest.raises(UnknownKey):
            keys.check(token)
        await asyncio.sleep(0)
    assert address.reads == 1
    await keys.stop()


@pytest.mark.parametrize("failure", [OSError("no way"), b"not keys"])
async def test_what_is_known_stays(
    monkeypatch: pytest.MonkeyPatch, failure: OSError | bytes, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keys_module, "_MIN_PAUSE_S", 0.01)
    issuer = Issuer()
    address = Address(issuer.jwks())
    keys = TokenKeys(SETTINGS._replace(refresh_ms=10), SystemClock(), address.fetch)
    await keys.start()
    if isinstance(failure, bytes):
        address.document = failure
    else:
        address.error = failure
    await address.next_read()
    await address.next_read()
    assert "the old ones stay" in caplog.text
    assert keys.check(issuer.token()).subject == "alice"
    await keys.stop()


@pytest.mark.parametrize("failure", [OSError("no way"), b"not keys"])
async def test_without_keys_there_is_no_start(failure: OSError | bytes) -> None:
    address = Address(failure if isinstance(failure, bytes) else b"")
    address.error = failure if isinstance(failure, OSError) else None
    keys = TokenKeys(SETTINGS, SystemClock(), address.fetch)
    with pytest.raises(ConfigError, match=r"jwks.endpoint.url https://keys: "):
        await keys.start()
