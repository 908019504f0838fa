"""The client's side of SCRAM (ScramSaslClient)."""

from __future__ import annotations

import base64
import hmac
from functools import lru_cache
from typing import NamedTuple

from ottla.security.sasl import scram
from ottla.security.sasl import scram_messages as messages
from ottla.security.sasl.exchange import SaslFailed, SaslRefused

# A server decides how many rounds its clients compute: none may keep one busy for minutes.
MAX_CLIENT_ITERATIONS = 1_000_000
_HEADER = "n,,"

# One user logs in on every connection and again with every re-authentication; the rounds are
# computed once for each salt.
_salted_password = lru_cache(maxsize=32)(scram.salted_password)


class ScramCredentials(NamedTuple):
    """A user of SCRAM and the password that proves it; with `by_token` a delegation token's id and
    its HMAC."""

    mechanism: str
    username: str
    password: str
    by_token: bool = False

    async def new_exchange(self, nonce: str) -> ScramClientExchange:
        return ScramClientExchange(self, nonce)

    def __repr__(self) -> str:
        return f"ScramCredentials({self.mechanism!r}, {self.username!r}, ...)"


class ScramClientExchange:
    """Shows that it knows the password, and asks the server to show the same."""

    def __init__(self, credentials: ScramCredentials, nonce: str) -> None:
        self._credentials = credentials
        self._nonce = nonce
        extension = ",tokenauth=true" if credentials.by_token else ""
        name = scram.to_sasl_name(credentials.username)
        self._bare = f"n={name},r={nonce}{extension}"
        self._expected: bytes | None = None

    def first(self) -> bytes:
        return (_HEADER + self._bare).encode()

    def take(self, challenge: bytes) -> bytes | None:
        try:
            if self._expected is None:
                return self._prove(challenge, messages.parse_server_first(challenge))
            self._check(self._expected, messages.parse_server_final(challenge))
        except SaslFailed as error:
            raise SaslRefused(str(error)) from None
        return None

    def _prove(self, challenge: bytes, first: messages.ServerFirst) -> bytes:
        mechanism = self._credentials.mechanism
        if not first.nonce.startswith(self._nonce):
            raise SaslRefused("Invalid server nonce: does not start with client nonce")
        if first.iterations < scram.MIN_ITERATIONS:
            raise SaslRefused(
                f"Requested iterations {first.iterations} is less than the minimum "
                f"{scram.MIN_ITERATIONS} for {mechanism}"
            )
        if first.iterations > MAX_CLIENT_ITERATIONS:
            raise SaslRefused(
                f"Requested iterations {first.iterations} is more than {MAX_CLIENT_ITERATIONS}"
            )
        salted = _salted_password(
            mechanism, self._credentials.password, first.salt, first.iterations
        )
        binding = base64.b64encode(_HEADER.encode()).decode()
        without_proof = f"c={binding},r={first.nonce}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        key = scram.client_key(mechanism, salted)
        signature = scram.mac(mechanism, scram.digest(mechanism, key), signed)
        self._expected = scram.mac(mechanism, scram.server_key(mechanism, salted), signed)
        proof = base64.b64encode(scram.xor(key, signature)).decode()
        return f"{without_proof},p={proof}".encode()

    def _check(self, expected: bytes, final: messages.ServerFinal) -> None:
        if final.error is not None:
            raise SaslRefused(
                f"Sasl authentication using {self._credentials.mechanism} failed with error: "
                f"{final.error}"
            )
        if not hmac.compare_digest(final.signature, expected):
            raise SaslRefused("Invalid server signature in server final message")
