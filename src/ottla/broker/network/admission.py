"""What a peer has to pass before its requests are served, and again when its session ends.

`broker/requests/authentication.py` knows what to answer; here is when: at once, later where logins
failed before, or never.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ottla.errors import InvariantViolated

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

    from ottla.broker.network.answers import Answers
    from ottla.broker.requests.authentication import Authentication, Session
    from ottla.security.sasl.server import Authenticated

Chunks = list[bytes | memoryview]


class Gate(Protocol):
    """What all peers of a listener have to pass: `BrokerServer`."""

    def new_authentication(self, before: Authenticated | None = None) -> Authentication:
        """`before` is how the peer got through the last time."""

    def login_wait_s(self, host: str, name: str, *, is_refused: bool) -> float | None:
        """How long the outcome of an authentication is held back; None where too many are."""

    def monotonic_ms(self) -> float: ...


class Peer(Protocol):
    """The connection that is to be let in: `ClientConnection`."""

    client_host: str

    def admit(self, through: Authenticated, *, for_good: bool) -> None:
        """Serves its requests from now on; `for_good` where the session has no end."""

    def refuse(self, wait_s: float, chunks: Chunks, reason: str) -> None:
        """Reads nothing more, answers after the wait, and closes."""

    def hold_back(self, wait_s: float, then: Callable[[], None]) -> None:
        """Serves nothing for a while, then does what is given, then goes on."""

    def close(self, reason: str | None = None) -> None: ...


class Admission:
    """Of one connection."""

    def __init__(self, gate: Gate, peer: Peer, answers: Answers) -> None:
        self._gate = gate
        self._peer = peer
        self._answers = answers
        self._authentication: Authentication | None = gate.new_authentication()
        self._session: Session | None = None

    def serve_first(self, queue: deque[memoryview]) -> bool | None:
        """None where the first request is to be served as any other; True where it was taken here,
        False where it has to wait until parked answers have left."""
        session = self._session
        if session is not None:
            now_ms = self._gate.monotonic_ms()
            if session.is_renewed_by(queue[0], now_ms):
                if self._answers.parked:
                    return False
                self._session = None
                self._authentication = self._gate.new_authentication(session.authenticated)
            elif session.is_over(now_ms):
                # Without a word, as in Kafka (KIP-368).
                self._peer.close()
                return True
            else:
                return None
        if self._authentication is None:
            raise InvariantViolated("neither a session nor an authentication")
        self._take(self._authentication, queue.popleft())
        return True

    def _take(self, authentication: Authentication, frame: memoryview) -> None:
        step = authentication.take(frame)
        if step.refusal is None and authentication.authenticated is None:
            self._answers.write(step.chunks)
            return
        wait_s = self._gate.login_wait_s(
            self._peer.client_host,
            authentication.claimed_name,
            is_refused=step.refusal is not None,
        )
        if wait_s is None:
            self._peer.close("too many failed logins of this user from this address")
        elif step.refusal is not None:
            # Both the answer and the closing wait: guessing must be slow.
            self._peer.refuse(wait_s, step.chunks, step.refusal)
        elif wait_s > 0:
            # Others have failed under this name on this address just now.
            self._peer.hold_back(wait_s, lambda: self._let_in(authentication, step.chunks))
        else:
            self._let_in(authentication, step.chunks)

    def _let_in(self, authentication: Authentication, chunks: Chunks) -> None:
        if authentication.authenticated is None:
            raise InvariantViolated("a peer is let in that is not authenticated")
        self._answers.write(chunks)
        self._authentication, self._session = None, authentication.session
        self._peer.admit(authentication.authenticated, for_good=self._session is None)
