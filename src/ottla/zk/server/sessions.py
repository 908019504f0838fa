"""Sessions: ids, passwords, negotiated time-outs, expiry by ticks. Pure: time comes in."""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Protocol

PASSWORD_BYTES = 16
DEFAULT_TICK_MS = 2000
# A session outlives its connection by its time-out: whoever opens one after the other has many.
MAX_SESSIONS = 20_000


class SessionOwner(Protocol):
    """Whatever a session is attached to now: a connection or an embedded store."""

    def session_ended(self) -> None:
        """The session expired or was taken over; no more answers may be given to it."""


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """ZooKeeper bounds the time-out a client asks for to 2 and 20 ticks unless told otherwise."""

    tick_ms: int = DEFAULT_TICK_MS
    min_timeout_ms: int = 2 * DEFAULT_TICK_MS
    max_timeout_ms: int = 20 * DEFAULT_TICK_MS
    max_sessions: int = MAX_SESSIONS

    @classmethod
    def of(
        cls, tick_ms: int, min_timeout_ms: int | None = None, max_timeout_ms: int | None = None
    ) -> SessionLimits:
        return cls(
            tick_ms,
            2 * tick_ms if min_timeout_ms is None else min_timeout_ms,
            20 * tick_ms if max_timeout_ms is None else max_timeout_ms,
        )

    def negotiate(self, asked_ms: int) -> int:
        return max(self.min_timeout_ms, min(self.max_timeout_ms, asked_ms))


class Session:
    __slots__ = ("deadline_ms", "id", "owner", "timeout_ms")

    def __init__(self, session_id: int, timeout_ms: int, now_ms: float) -> None:
        self.id = session_id
        self.timeout_ms = timeout_ms
        self.deadline_ms = now_ms + timeout_ms
        self.owner: SessionOwner | None = None

    def touch(self, now_ms: float) -> None:
        self.deadline_ms = now_ms + self.timeout_ms


class Sessions:
    """The live sessions of one server."""

    def __init__(self, limits: SessionLimits, secret: bytes, first_id: int) -> None:
        self.limits = limits
        self._secret = secret
        self._next_id = first_id
        self._live: dict[int, Session] = {}

    def __len__(self) -> int:
        return len(self._live)

    def __iter__(self) -> Iterable[Session]:
        return iter(self._live.values())

    def restore(self, timeouts: dict[int, int], now_ms: float) -> None:
        """After a restart every session gets its whole time-out again to come back in."""
        for session_id, timeout_ms in timeouts.items():
            self.adopt(session_id, timeout_ms, now_ms)

    def new_id(self) -> int:
        session_id = self._next_id
        self._next_id += 1
        return session_id

    def adopt(self, session_id: int, timeout_ms: int, now_ms: float) -> Session:
        session = self._live[session_id] = Session(session_id, timeout_ms, now_ms)
        self._next_id = max(self._next_id, session_id + 1)
        return session

    def get(self, session_id: int) -> Session | None:
        return self._live.get(session_id)

    def password(self, session_id: int) -> bytes:
        """Derived from a secret of the server, so that it need not be stored per session."""
        message = session_id.to_bytes(8, "big", signed=True)
        return hmac.new(self._secret, message, hashlib.sha256).digest()[:PASSWORD_BYTES]

    def authenticate(self, session_id: int, password: bytes | None) -> Session | None:
        """The session, or None where it is unknown or the password is another one."""
        session = self._live.get(session_id)
        if session is None or password is None:
            return None
        if not hmac.compare_digest(self.password(session_id), password):
            return None
        return session

    def remove(self, session_id: int) -> Session | None:
        return self._live.pop(session_id, None)

    def unused(self, owners: Container[int]) -> list[Session]:
        """Some that no connection has and that own nothing, a tenth of the most there may be;
        those that came first."""
        found = (s for s in self._live.values() if s.owner is None and s.id not in owners)
        return list(itertools.islice(found, max(1, self.limits.max_sessions // 10)))

    def expired(self, now_ms: float) -> list[Session]:
        return [session for session in self._live.values() if session.deadline_ms <= now_ms]


def first_session_id(server_id: int, now_ms: int) -> int:
    """Server id in the top byte, then the time: unique over restarts (SessionTrackerImpl)."""
    return (server_id << 56) | ((now_ms << 24) & 0xFFFF_FFFF_FFFF_FFFF) >> 8 & 0x00FF_FFFF_FFFF_FFFF
