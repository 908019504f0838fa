"""The client's side of SASL against servers that do not keep to it."""

from __future__ import annotations

import pytest

from ottla.client.sasl import authenticate
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.scram import SCRAM_SHA_256
from ottla.security.sasl.scram_client import ScramCredentials
from ottla.wire import messages as m

DORA = ScramCredentials(SCRAM_SHA_256, "dora", "p")


async def test_both_sides_must_know_the_password() -> None:
    """A client notices a server that does not, even where it lets everybody in."""

    async def send(message: object, version: int) -> object:
        if isinstance(message, m.SaslHandshakeRequest):
            return m.SaslHandshakeResponse(mechanisms=[SCRAM_SHA_256])
        assert isinstance(message, m.SaslAuthenticateRequest)
        if message.auth_bytes.startswith(b"n,,"):
            nonce = message.auth_bytes.rpartition(b"r=")[2]
            return m.SaslAuthenticateResponse(
                error_message=None, auth_bytes=b"r=" + nonce + b"x,s=c2FsdA==,i=4096"
            )
        return m.SaslAuthenticateResponse(error_message=None, auth_bytes=b"v=AAAA")

    with pytest.raises(KafkaError, match="Invalid server signature") as caught:
        await authenticate(send, DORA)
    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_a_server_that_never_has_enough() -> None:
    asked = 0

    async def send(message: object, version: int) -> object:
        nonlocal asked
        asked += 1
        return m.SaslAuthenticateResponse(error_message=None, auth_bytes=b"more")

    class Endless:
        mechanism = "ENDLESS"

        async def new_exchange(self, nonce: str) -> Endless:
            return self

        def first(self) -> bytes:
            return b"first"

        def take(self, challenge: bytes) -> bytes | None:
            return challenge

    async def shake_hands(message: object, version: int) -> object:
        if isinstance(message, m.SaslHandshakeRequest):
            return m.SaslHandshakeResponse(mechanisms=["ENDLESS"])
        return await send(message, version)

    with pytest.raises(KafkaError, match="more than 10 tokens of ENDLESS"):
        await authenticate(shake_hands, Endless())
    assert asked == 10


async def test_a_handshake_that_is_refused() -> None:
    async def send(message: object, version: int) -> object:
        return m.SaslHandshakeResponse(
            error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN", "OTHER"]
        )

    with pytest.raises(KafkaError) as caught:
        await authenticate(send, DORA)
    assert str(caught.value) == (
        "Client SASL mechanism 'SCRAM-SHA-256' not enabled in the server, enabled mechanisms are "
        "[PLAIN, OTHER]"
    )
