"""Znodes of delegation tokens: what they hold, where they are, their bytes (ZkData.scala, KIP-48).

The secret of a token, its HMAC, is not among them: every broker makes it from the token's id and
the key that all of them have in their configuration.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.metadata.entity_configs import desanitize, sanitize
from ottla.metadata.znode_values import BadZnodeError, dump, integer, load

_VERSION = 1


class DelegationToken(NamedTuple):
    """Principals as `User:name`; times in milliseconds."""

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    issued_ms: int
    # Nobody can make it live longer than this.
    max_ms: int
    expiry_ms: int

    def belongs_to(self, principal: str) -> bool:
        """Whether the principal may renew it, end it and see it."""
        return principal == self.owner or principal in self.renewers

    def is_over(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms


class TokenZnode:
    PARENT = "/delegation_token/tokens"

    @staticmethod
    def path(token_id: str) -> str:
        return f"{TokenZnode.PARENT}/{token_id}"

    @staticmethod
    def encode(token: DelegationToken) -> bytes:
        return dump(
            {
                "version": _VERSION,
                "owner": sanitize(token.owner),
                "renewers": [sanitize(renewer) for renewer in token.renewers],
                "issueTimestamp": token.issued_ms,
                "maxTimestamp": token.max_ms,
                "expiryTimestamp": token.expiry_ms,
                "tokenId": token.token_id,
            }
        )

    @staticmethod
    def decode(token_id: str, data: bytes | None) -> DelegationToken:
        path = TokenZnode.path(token_id)
        value = load(data)
        if value is None:
            raise BadZnodeError(f"{path} is not JSON")
        if value.get("version") != _VERSION or value.get("tokenId") != token_id:
            raise BadZnodeError(f"{path} is not the token of its name in version {_VERSION}")
        renewers = value.get("renewers")
        if not isinstance(renewers, list):
            raise BadZnodeError(f"{path} has no list of renewers")
        return DelegationToken(
            token_id,
            _principal(path, value.get("owner")),
            tuple(_principal(path, renewer) for renewer in renewers),
            *(_time(path, value, key) for key in _TIMES),
        )


class TokenChangeZnode:
    """A note that a token has changed; its data is the token's id."""

    PARENT = "/delegation_token/token_changes"
    PREFIX = "token_change_"

    @staticmethod
    def encode(token_id: str) -> bytes:
        return token_id.encode()

    @staticmethod
    def decode(data: bytes | None) -> str:
        try:
            token_id = (data or b"").decode()
        except UnicodeDecodeError:
            token_id = ""
        if not token_id or "/" in token_id:
            raise BadZnodeError(f"{TokenChangeZnode.PARENT}: {data!r} is not the id of a token")
        return token_id


_TIMES = ("issueTimestamp", "maxTimestamp", "expiryTimestamp")


def _principal(path: str, value: Any) -> str:
    text = desanitize(value) if isinstance(value, str) else ""
    # As Kafka reads them: a type and a name, either of which may be empty.
    if ":" not in text:
        raise BadZnodeError(f"{path}: {value!r} is not a principal")
    return text


def _time(path: str, value: dict[str, Any], key: str) -> int:
    time_ms = integer(value.get(key))
    if time_ms is None:
        raise BadZnodeError(f"{path}: {key} is {value.get(key)!r} and not a time")
    return time_ms
