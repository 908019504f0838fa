"""Who looks: visitors with their cookies and tokens, and each one's way to the cluster.

A cluster with SASL gives every visitor a client of their own, with the rights of the user who
logged in; without SASL all share one. Passwords are kept in the client that uses them, in memory.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.admin.client import Admin
from ottla.client.settings import AdminConfig
from ottla.config.definitions import ConfigError
from ottla.console.web.failures import ApiError, invalid
from ottla.console.web.live import Feeds
from ottla.security.sasl.mechanisms import client_credentials
from ottla.security.sasl.oauth.exchange import OAUTHBEARER
from ottla.security.sasl.plain import PLAIN
from ottla.security.sasl.scram import SCRAM_HASHES

if TYPE_CHECKING:
    from ottla.console.settings import ConsoleSettings
    from ottla.runtime import Runtime
    from ottla.security.sasl.exchange import Credentials
    from ottla.security.tls.settings import TlsSettings

T = TypeVar("T")

CLIENT_ID = "ottla-console"
MAX_VISITORS = 256
# Of one user: nobody pushes the others out by logging in again and again.
MAX_VISITORS_OF_A_USER = 32
# A page that is open asks all the time; a closed one is forgotten after this.
IDLE_MS = 8 * 3600 * 1000.0
# How long a page waits for the cluster before it says so.
CALL_TIMEOUT_MS = 10_000
MAX_READS = 4
# By people, with a password; a token of OAUTHBEARER comes from elsewhere.
MECHANISMS = (PLAIN, *SCRAM_HASHES)
# Whoever guesses passwords waits, and is not many at a time.
MAX_LOGINS_UNDER_WAY = 4


class Access:
    """One way to the cluster: the client, and the feeds that are polled through it."""

    def __init__(self, admin: Admin, *, user: str | None = None) -> None:
        self.admin = admin
        self.user = user
        self.feeds = Feeds()
        self._kept: dict[type, Any] = {}
        # Whoever reads records holds megabytes of them.
        self.reads = asyncio.Semaphore(MAX_READS)

    def keep(self, kind: type[T], make: Callable[[], T]) -> T:
        """The one thing of its kind that all pages share for whoever has these rights."""
        if kind not in self._kept:
            self._kept[kind] = make()
        kept: T = self._kept[kind]
        return kept

    async def close(self) -> None:
        await self.feeds.close()
        await self.admin.close()


@dataclass(slots=True)
class Visitor:
    """A browser, known by its cookie. `access` is None until somebody has logged in."""

    cookie: str = field(repr=False)
    # Pages send it with every write: a page of somebody else cannot know it.
    token: str = field(repr=False)
    seen_ms: float
    access: Access | None = None


class Visitors:
    """The one owner of all visitors and their clients; `now_ms` is a clock that never goes back."""

    def __init__(
        self, settings: ConsoleSettings, runtime: Runtime, now_ms: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._now_ms = now_ms
        self._runtime = AdminConfig(tls=_tls(settings)).connected(runtime)
        self._known: dict[str, Visitor] = {}
        self._shared = None if settings.needs_login else Access(self._connect(None))
        self._logins_under_way = 0

    def find(self, cookie: str | None) -> Visitor | None:
        visitor = self._known.get(cookie or "")
        if visitor is not None:
            visitor.seen_ms = self._now_ms()
        return visitor

    async def greet(self, cookie: str | None) -> Visitor:
        """The visitor of this cookie, or a new one."""
        visitor = self.find(cookie)
        if visitor is None:
            await self._make_room()
            visitor = Visitor(
                secrets.token_urlsafe(32),
                secrets.token_urlsafe(32),
                self._now_ms(),
                self._shared,
            )
            self._known[visitor.cookie] = visitor
        return visitor

    async def log_in(
        self, visitor: Visitor, mechanism: str, username: str, password: str
    ) -> Visitor:
        """A new visitor in place of this one (a cookie from before a login is worth nothing after
        it); raises ApiError, or what the cluster says."""
        if not self._settings.needs_login:
            raise invalid("This cluster does not ask who is there.")
        if mechanism not in MECHANISMS:
            raise invalid(f"Use one of {', '.join(MECHANISMS)}.", "mechanism")
        if self._logins_under_way >= MAX_LOGINS_UNDER_WAY:
            raise ApiError(429, "TOO_MANY_LOGINS", "Others are logging in: try again in a moment.")
        options = {"username": username, "password": password}
        credentials = client_credentials(mechanism, options, self._settings.properties)
        access = Access(self._connect(credentials), user=username)
        self._logins_under_way += 1
        try:
            await access.admin.describe_cluster()
        except BaseException:
            await access.close()
            raise
        finally:
            self._logins_under_way -= 1
        await self.forget(visitor)
        await self._make_room_for(username)
        newcomer = await self.greet(None)
        newcomer.access = access
        return newcomer

    async def forget(self, visitor: Visitor) -> None:
        self._known.pop(visitor.cookie, None)
        access, visitor.access = visitor.access, None
        if access is not None and access is not self._shared:
            await access.close()

    async def close(self) -> None:
        for visitor in tuple(self._known.values()):
            await self.forget(visitor)
        if self._shared is not None:
            await self._shared.close()

    async def keep_tidy(self, pause_s: float = 60.0) -> None:
        """Forgets those who have gone, until it is cancelled."""
        while True:
            await asyncio.sleep(pause_s)
            await self.forget_idle()

    async def forget_idle(self) -> None:
        oldest_ms = self._now_ms() - IDLE_MS
        for visitor in tuple(self._known.values()):
            if visitor.seen_ms < oldest_ms:
                await self.forget(visitor)

    async def _make_room(self) -> None:
        """Those who are not logged in and were not seen for longest go first."""
        while len(self._known) >= MAX_VISITORS:
            logged_in = self._settings.needs_login
            await self.forget(
                min(
                    self._known.values(),
                    key=lambda visitor: (logged_in and visitor.access is not None, visitor.seen_ms),
                )
            )

    async def _make_room_for(self, user: str) -> None:
        theirs = [each for each in self._known.values() if each.access and each.access.user == user]
        theirs.sort(key=lambda visitor: visitor.seen_ms)
        for visitor in theirs[: max(len(theirs) - MAX_VISITORS_OF_A_USER + 1, 0)]:
            await self.forget(visitor)

    def _connect(self, credentials: Credentials | None) -> Admin:
        return Admin.connect(
            self._runtime,
            self._settings.bootstrap,
            client_id=CLIENT_ID,
            timeout_ms=CALL_TIMEOUT_MS,
            credentials=credentials,
        )


def likely_mechanism(settings: ConsoleSettings) -> str:
    """The one that the login form offers first."""
    named = settings.properties.get("sasl.mechanism", "").upper()
    return named if named in MECHANISMS else MECHANISMS[-1]


def check_mechanism(settings: ConsoleSettings) -> None:
    """Raises ConfigError for a cluster that no password opens."""
    named = settings.properties.get("sasl.mechanism", "").upper()
    if settings.needs_login and named == OAUTHBEARER:
        raise ConfigError(
            f"people log in to the console by password: {', '.join(MECHANISMS)}, not {OAUTHBEARER}"
        )


def _tls(settings: ConsoleSettings) -> TlsSettings | None:
    protocol = settings.properties.get("security.protocol", "PLAINTEXT").upper()
    if not protocol.endswith("SSL"):
        return None
    # Credentials come from whoever logs in: of the properties only those of TLS are read here.
    only_tls = {name: value for name, value in settings.properties.items() if "sasl." not in name}
    return AdminConfig.from_properties({**only_tls, "security.protocol": "SSL"}).tls
