"""SASL on the wire: what a connection that has not said who it is gets as answers.

The legal order of requests and the mechanisms are in `security/sasl`; here frames are decoded
and answers encoded. A refusal may carry an answer, which leaves, like the closing, only after
connection.failed.authentication.delay.ms: guessing passwords must be slow (KAFKA-6950). A `Session`
is what comes after, where it is limited (KIP-368).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.context.request import CloseConnection
from ottla.broker.handlers import api_versions
from ottla.broker.requests import dispatch
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.exchange import SaslRefused
from ottla.security.sasl.mechanisms import SaslSettings, SaslUsers, new_exchange
from ottla.security.sasl.server import Authenticated, SaslServer, SaslState, session_lifetime_ms
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message

if TYPE_CHECKING:
    from ottla.runtime import Clock

_API_KEY = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_API_VERSIONS, _SASL_HANDSHAKE = 18, 17
# Kafka's KafkaChannel: a connection begins to authenticate again once a second at most.
_BETWEEN_AUTHENTICATIONS_MS = 1000


class Step(NamedTuple):
    """What to send; with a `refusal`, later and as the last thing."""

    chunks: list[bytes | memoryview]
    refusal: str | None = None


class Session:
    """Of a connection that is through, until it has to show again who it is."""

    def __init__(
        self, authenticated: Authenticated, ends_at_ms: float, began_again_ms: float | None
    ) -> None:
        """Times are those of the monotonic clock; `began_again_ms` is when the last authentication
        on a connection that was through began."""
        self.authenticated = authenticated
        self._ends_at_ms = ends_at_ms
        self._began_again_ms = began_again_ms

    def is_renewed_by(self, frame: memoryview, now_ms: float) -> bool:
        """Whether a request begins another authentication; one that comes too soon is answered as
        on any connection that is through: ILLEGAL_SASL_STATE."""
        if len(frame) < _API_KEY.size or _API_KEY.unpack_from(frame)[0] != _SASL_HANDSHAKE:
            return False
        began = self._began_again_ms
        return began is None or now_ms - began >= _BETWEEN_AUTHENTICATIONS_MS

    def is_over(self, now_ms: float) -> bool:
        return now_ms > self._ends_at_ms


class Authentication:
    """Of one connection, until `authenticated` is known."""

    def __init__(
        self,
        settings: SaslSettings,
        users: SaslUsers,
        clock: Clock,
        before: Authenticated | None = None,
    ) -> None:
        """`before` is how the connection got through the last time."""
        self._settings = settings
        self._clock = clock
        self._began_again_ms = None if before is None else clock.monotonic_ms()
        self._sasl = SaslServer(
            settings.mechanisms,
            lambda mechanism: new_exchange(mechanism, settings, users),
            before,
        )
        # Set with `authenticated`, where the session is limited.
        self.session: Session | None = None

    @property
    def authenticated(self) -> Authenticated | None:
        return self._sasl.authenticated

    @property
    def claimed_name(self) -> str:
        """Whom the peer claims to be; "" while it has not said."""
        return self._sasl.claimed_name

    def take(self, frame: memoryview) -> Step:
        sasl = self._sasl
        if sasl.state is SaslState.RAW_TOKENS:
            return self._take_raw_token(frame)
        if sasl.state is SaslState.OTHER_MECHANISM:
            return Step([], sasl.refuse_other_mechanism())
        if len(frame) < _API_KEY.size:
            return Step([], "a frame that is too short to be a request came before authentication")
        api_key = _API_KEY.unpack_from(frame)[0]
        if not sasl.accepts(api_key) and sasl.state is not SaslState.TOKENS:
            return Step([], f"a request with API key {api_key} came before authentication")
        try:
            call = dispatch.read(frame)
            if not sasl.accepts(api_key):
                error = KafkaError(ErrorCode.ILLEGAL_SASL_STATE)
                return Step(
                    dispatch.encode_whole(dispatch.encode_failure(call, error)),
                    f"{call.loaded.route.name} came in the middle of authentication",
                )
        except CloseConnection as error:
            return Step([], str(error))
        if api_key == _API_VERSIONS:
            return self._tell_versions(call)
        if api_key == _SASL_HANDSHAKE:
            return self._shake_hands(call)
        return self._authenticate(call)

    def _tell_versions(self, call: dispatch.Call) -> Step:
        """After an error the client may ask again in another version."""
        if call.header is None:
            return Step(_encode(call, dispatch.unsupported_api_versions(call.loaded)))
        response = api_versions.answer(call.answer_version, call.request)
        if response.error_code == ErrorCode.NONE:
            self._sasl.versions_told()
        return Step(_encode(call, response))

    def _shake_hands(self, call: dispatch.Call) -> Step:
        mechanism = call.request.mechanism
        response = m.SaslHandshakeResponse(mechanisms=list(self._sasl.mechanisms))
        if self._sasl.handshake(mechanism, call.answer_version):
            return Step(_encode(call, response))
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        return Step(_encode(call, response), f"SASL mechanism {mechanism!r} is not enabled")

    def _authenticate(self, call: dispatch.Call) -> Step:
        try:
            answer = self._sasl.take_token(call.request.auth_bytes)
        except SaslRefused as error:
            response = m.SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
            return Step(_encode(call, response), _for_the_log(error))
        response = m.SaslAuthenticateResponse(
            error_message=None, auth_bytes=answer, session_lifetime_ms=self._limit_session()
        )
        return Step(_encode(call, response))

    def _take_raw_token(self, frame: memoryview) -> Step:
        try:
            answer = self._sasl.take_token(bytes(frame))
        except SaslRefused as error:
            return Step([], _for_the_log(error))
        self._limit_session()
        return Step([_SIZE.pack(len(answer)) + answer])

    def _limit_session(self) -> int:
        """The session's lifetime as a client is told it: 0 for ever."""
        through = self._sasl.authenticated
        if through is None:
            return 0
        lifetime_ms = session_lifetime_ms(
            self._settings.max_reauth_ms.get(through.mechanism, 0),
            through.identity.expires_at_ms,
            self._clock.now_ms(),
        )
        if lifetime_ms:
            ends_at_ms = self._clock.monotonic_ms() + lifetime_ms
            self.session = Session(through, ends_at_ms, self._began_again_ms)
        return lifetime_ms


def _for_the_log(refusal: SaslRefused) -> str:
    """With the reason that the client is not told."""
    return str(refusal) if refusal.__cause__ is None else f"{refusal} ({refusal.__cause__})"


def _encode(call: dispatch.Call, response: Message) -> list[bytes | memoryview]:
    return framing.encode_response(response, call.answer_version, call.correlation_id)
