"""SASL on the wire: what a connection that has not said who it is gets as answers.

The legal order of requests and the mechanisms are in `security/sasl.py`; here frames are decoded
and answers encoded. A refusal may carry an answer, which leaves, like the closing, only after
connection.failed.authentication.delay.ms: guessing passwords must be slow (KAFKA-6950).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.broker.context.request import CloseConnection
from ottla.broker.handlers import api_versions
from ottla.broker.requests import dispatch
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl import SaslRefused, SaslServer, SaslSettings, SaslState
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message

_API_KEY = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_API_VERSIONS, _SASL_HANDSHAKE = 18, 17
# Kafka says 0 for "forever": there is no limit on a session here.
_NO_LIFETIME = 0


class Step(NamedTuple):
    """What to send; with a `refusal`, later and as the last thing."""

    chunks: list[bytes | memoryview]
    refusal: str | None = None


class Authentication:
    """Of one connection, until `principal` is known."""

    def __init__(self, settings: SaslSettings) -> None:
        self._sasl = SaslServer(settings)

    @property
    def principal(self) -> str | None:
        return self._sasl.principal

    def take(self, frame: memoryview) -> Step:
        sasl = self._sasl
        if sasl.state is SaslState.RAW_TOKENS:
            return self._take_raw_token(frame)
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
            return Step(_encode(call, response), str(error))
        response = m.SaslAuthenticateResponse(
            error_message=None, auth_bytes=answer, session_lifetime_ms=_NO_LIFETIME
        )
        return Step(_encode(call, response))

    def _take_raw_token(self, frame: memoryview) -> Step:
        try:
            answer = self._sasl.take_token(bytes(frame))
        except SaslRefused as error:
            return Step([], str(error))
        return Step([_SIZE.pack(len(answer)) + answer])


def _encode(call: dispatch.Call, response: Message) -> list[bytes | memoryview]:
    return framing.encode_response(response, call.answer_version, call.correlation_id)
