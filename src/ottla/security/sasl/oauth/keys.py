"""The keys that tokens are signed with, from a file or an address (RefreshingHttpsJwks).

They are read again now and then. A token with a key that is not known makes the next reading come
sooner, but strangers cannot make it come often. What is known stays while an address fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ottla.config.definitions import ConfigError
from ottla.security.sasl.oauth.validation import (
    OAuthSettings,
    UnknownKey,
    ValidToken,
    read_keys,
    validate,
)

if TYPE_CHECKING:
    from jwt import PyJWK

    from ottla.runtime import Clock

logger = logging.getLogger(__name__)

_MIN_PAUSE_S = 10.0

# The document at an address; raises OSError.
Fetch = Callable[[str], Awaitable[bytes]]


class TokenKeys:
    """Of one listener: follows the keys and checks tokens with them."""

    def __init__(self, settings: OAuthSettings, clock: Clock, fetch: Fetch) -> None:
        self._settings = settings
        self._clock = clock
        self._fetch = fetch
        self._keys: Mapping[str, PyJWK] = {}
        self._is_wanted_sooner = asyncio.Event()
        self._refreshing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises ConfigError where there are no keys: nobody could log in."""
        try:
            await self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"sasl.oauthbearer.jwks.endpoint.url {self._settings.jwks_url}: {error}"
            ) from None
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)

    def check(self, token: str) -> ValidToken:
        """Raises TokenRefused."""
        try:
            return validate(token, self._keys, self._settings, self._clock.now_ms())
        except UnknownKey:
            self._is_wanted_sooner.set()
            raise

    async def _read(self) -> None:
        document = await self._fetch(self._settings.jwks_url)
        self._keys = read_keys(document)

    async def _refresh(self) -> None:
        while True:
            # Not sooner than this, however often an unknown key is shown.
            await asyncio.sleep(_MIN_PAUSE_S)
            try:
                async with asyncio.timeout(self._settings.refresh_ms / 1000):
                    await self._is_wanted_sooner.wait()
            except TimeoutError:
                pass
            self._is_wanted_sooner.clear()
            try:
                await self._read()
            except (OSError, ValueError) as error:
                logger.warning(
                    "keys of tokens could not be read from %s, the old ones stay: %s",
                    self._settings.jwks_url,
                    error,
                )
