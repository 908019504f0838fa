"""The server's side of SCRAM (ScramSaslServer)."""

from __future__ import annotations

import base64
import hmac

from ottla.security.sasl import scram
from ottla.security.sasl import scram_messages as messages
from ottla.security.sasl.exchange import Identity, SaslFailed, SaslRefused
from ottla.security.sasl.scram import ScramCredential, ScramUsers

_TOKEN_EXTENSION = "tokenauth"


class ScramExchange:
    """Two tokens of the client: who it is, then the proof.

    A user that does not exist is refused at the first, as Kafka does; the text is the same as for
    a wrong proof.
    """

    def __init__(self, mechanism: str, users: ScramUsers, nonce: str) -> None:
        self._mechanism = mechanism
        self._users = users
        self._own_nonce = nonce
        self.identity: Identity | None = None
        self.claimed_name = ""
        # Known after the client's first message.
        self._candidate: Identity | None = None
        self._credential: ScramCredential | None = None
        self._nonce = ""
        self._signed = ""

    def take(self, token: bytes) -> bytes:
        credential, candidate = self._credential, self._candidate
        if credential is None or candidate is None:
            return self._take_first(messages.parse_client_first(token))
        self._credential = None
        return self._take_final(messages.parse_client_final(token), credential, candidate)

    def _take_first(self, first: messages.ClientFirst) -> bytes:
        name = self.claimed_name = scram.from_sasl_name(first.sasl_name)
        credential, self._candidate = self._look_up(
            name, by_token=first.extensions.get(_TOKEN_EXTENSION, "").lower() == "true"
        )
        if first.authorization_id and first.authorization_id != name:
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        if credential.iterations < scram.MIN_ITERATIONS:
            raise SaslFailed(
                f"Iterations {credential.iterations} is less than the minimum "
                f"{scram.MIN_ITERATIONS} for {self._mechanism}"
            )
        self._credential = credential
        self._nonce = first.nonce + self._own_nonce
        answer = messages.server_first(self._nonce, credential.salt, credential.iterations)
        self._signed = f"{first.bare},{answer}"
        return answer.encode()

    def _look_up(self, name: str, *, by_token: bool) -> tuple[ScramCredential, Identity]:
        if by_token:
            token = self._users.find_token(self._mechanism, name)
            if token is None:
                raise SaslFailed("Token Authentication failed: Invalid tokenId")
            identity = Identity(token.owner, token.expires_at_ms, by_token=True)
            return token.credential, identity
        credential = self._users.find(self._mechanism, name)
        if credential is None:
            raise SaslFailed("Authentication failed: Invalid user credentials")
        return credential, Identity(name)

    def _take_final(
        self, final: messages.ClientFinal, credential: ScramCredential, candidate: Identity
    ) -> bytes:
        # RFC 5802 asks for it; Kafka leaves it to the proof.
        if final.nonce != self._nonce:
            raise SaslFailed("Invalid nonce in client final message")
        signed = f"{self._signed},{final.without_proof}".encode()
        signature = scram.mac(self._mechanism, credential.stored_key, signed)
        if len(final.proof) != len(signature):
            raise SaslFailed("Invalid client credentials")
        shown = scram.digest(self._mechanism, scram.xor(signature, final.proof))
        if not hmac.compare_digest(shown, credential.stored_key):
            raise SaslFailed("Invalid client credentials")
        self.identity = candidate
        own = scram.mac(self._mechanism, credential.server_key, signed)
        return b"v=" + base64.b64encode(own)
