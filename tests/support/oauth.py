"""Keys and tokens for tests, made anew in each run."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class Issuer:
    """Who signs tokens, and the public keys to check them with."""

    def __init__(self, key_id: str = "k1") -> None:
        self.key_id = key_id
        self.rsa = rsa.generate_private_key(65537, 2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())

    def jwks(self) -> bytes:
        keys = [
            json.loads(RSAAlgorithm.to_jwk(self.rsa.public_key())) | {"kid": self.key_id},
            json.loads(ECAlgorithm.to_jwk(self.ec.public_key())) | {"kid": f"{self.key_id}-ec"},
        ]
        return json.dumps({"keys": keys}).encode()

    def claims(self, subject: str = "alice", **changes: Any) -> dict[str, Any]:
        now_s = int(time.time())
        claims = {"sub": subject, "iat": now_s, "exp": now_s + 3600, **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, subject: str = "alice", *, kid: str | None = None, **changes: Any) -> str:
        headers = {"kid": self.key_id if kid is None else kid}
        return jwt.encode(
            self.claims(subject, **changes), self.rsa, algorithm="RS256", headers=headers
        )

    def ec_token(self, subject: str = "alice", **changes: Any) -> str:
        headers = {"kid": f"{self.key_id}-ec"}
        return jwt.encode(
            self.claims(subject, **changes), self.ec, algorithm="ES256", headers=headers
        )
