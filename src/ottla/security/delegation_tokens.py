"""Delegation tokens (KIP-48, DelegationTokenManager): a secret that stands for a user for a while.

A token's secret is the HMAC of its id, made with a key that all brokers have. Whoever shows it (by
SCRAM with `tokenauth=true`) is its owner. The store has ids, owners and times, followed by every
broker and written by any; it never has the secrets.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.change_notes import ChangeNotes
from ottla.metadata.store import CreateMode, NodeExistsError, NoNodeError, StoreError
from ottla.metadata.token_znodes import DelegationToken, TokenChangeZnode, TokenZnode
from ottla.metadata.znode_values import BadZnodeError
from ottla.security.sasl import scram
from ottla.security.sasl.scram import TokenCredential

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.runtime import Runtime

logger = logging.getLogger(__name__)

_READ_TOGETHER = 64
_TOKEN_ID_BITS = 128
_SALT_BITS = 160


class TokenSettings(NamedTuple):
    secret_key: str
    max_lifetime_ms: int
    expiry_time_ms: int
    check_interval_ms: int

    def __repr__(self) -> str:
        return "TokenSettings(...)"


def token_settings(config: BrokerConfig) -> TokenSettings | None:
    """None where the brokers have no key for tokens."""
    key = config.optional_text("delegation.token.secret.key") or config.optional_text(
        "delegation.token.master.key"
    )
    if not key:
        return None
    return TokenSettings(
        key,
        config.integer("delegation.token.max.lifetime.ms"),
        config.integer("delegation.token.expiry.time.ms"),
        config.integer("delegation.token.expiry.check.interval.ms"),
    )


class DelegationTokens:
    """All tokens of the cluster in memory, and how they are changed in the store."""

    def __init__(self, runtime: Runtime, store: MetadataStore, settings: TokenSettings) -> None:
        self._clock = runtime.clock
        self._random = runtime.random
        self._store = store
        self._settings = settings
        self._tokens: dict[str, DelegationToken] = {}
        self._ids_by_secret: dict[bytes, str] = {}
        # Made when a token is first shown: thousands of rounds of a hash each.
        self._credentials: dict[tuple[str, str], scram.ScramCredential] = {}
        self._changing = asyncio.Lock()
        self._sweeping: asyncio.Task[None] | None = None
        self._notes = ChangeNotes(
            store,
            runtime.clock,
            TokenChangeZnode.PARENT,
            TokenChangeZnode.PREFIX,
            self._take_note,
        )

    # following the store

    async def start(self, may_sweep: Callable[[], bool]) -> None:
        """Listens first, then loads. `may_sweep` tells whether this broker is the one that removes
        tokens that are over: the controller."""
        for path in ("/delegation_token", TokenChangeZnode.PARENT, TokenZnode.PARENT):
            try:
                await self._store.create(path)
            except NodeExistsError:
                pass
        await self._notes.start()
        ids = await self._store.children(TokenZnode.PARENT)
        for first in range(0, len(ids), _READ_TOGETHER):
            await asyncio.gather(*map(self._reload, ids[first : first + _READ_TOGETHER]))
        self._sweeping = asyncio.get_running_loop().create_task(self._sweep(may_sweep))

    async def stop(self) -> None:
        await self._notes.stop()
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    def on_new_session(self) -> None:
        self._notes.on_new_session()

    async def _take_note(self, data: bytes | None) -> None:
        token_id = TokenChangeZnode.decode(data)
        async with self._changing:
            await self._reload(token_id)

    async def _reload(self, token_id: str) -> None:
        try:
            data, _ = await self._store.get(TokenZnode.path(token_id))
            self._remember(TokenZnode.decode(token_id, data))
        except NoNodeError:
            self._forget(token_id)
        except BadZnodeError as error:
            # Nobody can log in with what cannot be read.
            logger.error("a delegation token is passed over: %s", error)
            self._forget(token_id)

    def _remember(self, token: DelegationToken) -> None:
        self._tokens[token.token_id] = token
        self._ids_by_secret[self.secret_of(token.token_id)] = token.token_id

    def _forget(self, token_id: str) -> None:
        if self._tokens.pop(token_id, None) is not None:
            del self._ids_by_secret[self.secret_of(token_id)]
            for mechanism in scram.SCRAM_HASHES:
                self._credentials.pop((mechanism, token_id), None)

    async def _sweep(self, may_sweep: Callable[[], bool]) -> None:
        while True:
            await asyncio.sleep(self._settings.check_interval_ms / 1000)
            if not may_sweep():
                continue
            try:
                await self.remove_those_that_are_over()
            except StoreError as error:
                logger.warning("delegation tokens could not be removed, later: %r", error)

    async def remove_those_that_are_over(self) -> None:
        now_ms = self._clock.now_ms()
        for token in [token for token in self._tokens.values() if token.is_over(now_ms)]:
            logger.info("Delegation token expired: %s of %s", token.token_id, token.owner)
            async with self._changing:
                await self._remove(token.token_id)

    # who is there

    def secret_of(self, token_id: str) -> bytes:
        """The HMAC of a token."""
        key = self._settings.secret_key.encode()
        return hmac.digest(key, token_id.encode(), hashlib.sha512)

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None:
        """What the server's side of SCRAM needs; the password is the HMAC in base64."""
        token = self.live(token_id)
        if token is None:
            return None
        credential = self._credentials.get((mechanism, token_id))
        if credential is None:
            password = base64.b64encode(self.secret_of(token_id)).decode()
            salt = self._random.getrandbits(_SALT_BITS).to_bytes(_SALT_BITS // 8, "big")
            credential = scram.new_credential(mechanism, password, salt, scram.MIN_ITERATIONS)
            self._credentials[mechanism, token_id] = credential
        owner = token.owner.partition(":")[2]
        return TokenCredential(credential, owner, token.expiry_ms)

    def live(self, token_id: str) -> DelegationToken | None:
        """The token, unless it is over."""
        token = self._tokens.get(token_id)
        return None if token is None or token.is_over(self._clock.now_ms()) else token

    def matching(
        self, owners: Collection[str] | None, may_see: Callable[[DelegationToken], bool]
    ) -> list[DelegationToken]:
        """Those that one of the `owners` has or may renew, as far as the asker may see them."""
        return [
            token
            for token in self._tokens.values()
            if (owners is None or any(map(token.belongs_to, owners))) and may_see(token)
        ]

    # the APIs

    async def create(
        self, owner: str, renewers: Iterable[str], max_lifetime_ms: int
    ) -> DelegationToken:
        """A new token; a lifetime that is not positive means the longest there is."""
        settings = self._settings
        now_ms = self._clock.now_ms()
        longest_ms = settings.max_lifetime_ms
        lifetime_ms = longest_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest_ms)
        bits = self._random.getrandbits(_TOKEN_ID_BITS).to_bytes(_TOKEN_ID_BITS // 8, "big")
        token = DelegationToken(
            base64.urlsafe_b64encode(bits).decode().rstrip("="),
            owner,
            tuple(dict.fromkeys(renewers)),
            now_ms,
            now_ms + lifetime_ms,
            min(now_ms + lifetime_ms, now_ms + settings.expiry_time_ms),
        )
        async with self._changing:
            await self._write(token)
        logger.info("Created a delegation token: %s for owner: %s", token.token_id, owner)
        return token

    async def renew(self, principal: str, secret: bytes, period_ms: int) -> int:
        """The new time of its end; a negative period means the usual one."""
        if period_ms < 0:
            period_ms = self._settings.expiry_time_ms
        async with self._changing:
            token = self._checked(principal, secret)
            return await self._end_at(token, self._clock.now_ms() + period_ms)

    async def expire(self, principal: str, secret: bytes, period_ms: int) -> int:
        """The time of its end: now where the period is negative."""
        async with self._changing:
            token = self._checked(principal, secret)
            now_ms = self._clock.now_ms()
            if period_ms < 0:
                await self._remove(token.token_id)
                logger.info("Delegation token ended: %s of %s", token.token_id, token.owner)
                return now_ms
            return await self._end_at(token, now_ms + period_ms)

    def _checked(self, principal: str, secret: bytes) -> DelegationToken:
        token_id = self._ids_by_secret.get(secret)
        if token_id is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        token = self._tokens[token_id]
        if not token.belongs_to(principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        if token.is_over(self._clock.now_ms()):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        return token

    async def _end_at(self, token: DelegationToken, expiry_ms: int) -> int:
        changed = token._replace(expiry_ms=min(token.max_ms, expiry_ms))
        await self._write(changed)
        return changed.expiry_ms

    async def _write(self, token: DelegationToken) -> None:
        path, data = TokenZnode.path(token.token_id), TokenZnode.encode(token)
        try:
            await self._store.set(path, data, -1)
        except NoNodeError:
            await self._store.create(path, data)
        self._remember(token)
        await self._tell(token.token_id)

    async def _remove(self, token_id: str) -> None:
        try:
            await self._store.delete(TokenZnode.path(token_id), -1)
        except NoNodeError:
            pass  # another broker was faster
        self._forget(token_id)
        await self._tell(token_id)

    async def _tell(self, token_id: str) -> None:
        await self._store.create(
            f"{TokenChangeZnode.PARENT}/{TokenChangeZnode.PREFIX}",
            TokenChangeZnode.encode(token_id),
            mode=CreateMode.PERSISTENT_SEQUENTIAL,
        )
