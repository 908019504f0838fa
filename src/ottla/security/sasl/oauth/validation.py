"""Whether a token is good: its signature, its times, whom it is from and for.

Only signatures with a public key count. A token that names no algorithm, or one whose key would be
the same on both sides, is refused whatever it says: the public key must not serve as a password.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jwt import PyJWK

_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
MAX_TOKEN_CHARACTERS = 64 * 1024


class TokenRefused(ValueError):
    """The token is not good; the text is for the broker's log."""


class UnknownKey(TokenRefused):
    """Signed with a key that is not among those known: newer ones may have it."""


class OAuthSettings(NamedTuple):
    """Kafka's `sasl.oauthbearer.*` of a listener."""

    jwks_url: str
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_s: int = 30
    subject_claim: str = "sub"
    refresh_ms: int = 3_600_000


class ValidToken(NamedTuple):
    subject: str
    expires_at_ms: int


def read_keys(document: bytes) -> dict[str, PyJWK]:
    """The public keys of a JWKS document by their ids; raises ValueError for what is none."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        value = json.loads(document)
        entries = value["keys"]
        if not isinstance(entries, list):
            raise TypeError("not a list")
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise ValueError(f"not a JWKS document: {error}") from None
    keys = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("kty") not in _ALGORITHMS:
            continue
        if entry.get("use", "sig") != "sig" or not isinstance(entry.get("kid", ""), str):
            continue
        # The private half has no place here; PyJWT would take it for what it is.
        public = {name: part for name, part in entry.items() if name not in _PRIVATE_PARTS}
        try:
            keys[entry.get("kid", "")] = PyJWK.from_dict(public)
        except (PyJWTError, ValueError, TypeError, KeyError):
            continue  # one of a kind that this library does not know
    if not keys:
        raise ValueError("a JWKS document without a public key for signatures")
    return keys


_PRIVATE_PARTS = ("d", "p", "q", "dp", "dq", "qi", "oth")


def validate(
    token: str, keys: Mapping[str, PyJWK], settings: OAuthSettings, now_ms: int
) -> ValidToken:
    """Raises TokenRefused."""
    import jwt

    if len(token) > MAX_TOKEN_CHARACTERS:
        raise TokenRefused(f"a token of {len(token)} characters")
    try:
        header = jwt.get_unverified_header(token)
        key = _key_for(header, keys)
        claims = jwt.decode(
            token,
            key=key,
            algorithms=[str(header.get("alg"))],
            audience=settings.audiences or None,
            issuer=settings.issuer,
            # Times are compared below, with the broker's clock.
            options={
                "require": ["exp", "iat"],
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
                "verify_sub": False,
            },
        )
    except jwt.PyJWTError as error:
        raise TokenRefused(str(error)) from None
    _check_times(claims, settings, now_ms)
    subject = claims.get(settings.subject_claim)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenRefused(f"the claim {settings.subject_claim} is not a name")
    return ValidToken(subject, int(claims["exp"] * 1000))


def _key_for(header: dict[str, Any], keys: Mapping[str, PyJWK]) -> PyJWK:
    key_id = header.get("kid")
    if key_id is None and len(keys) == 1:
        key = next(iter(keys.values()))
    elif isinstance(key_id, str) and key_id in keys:
        key = keys[key_id]
    else:
        raise UnknownKey(f"signed with the key {key_id!r}, which is not known")
    if header.get("alg") not in _ALGORITHMS.get(key.key_type or "", ()):
        raise TokenRefused(
            f"signed by {header.get('alg')!r}, which does not go with the key {key_id!r}"
        )
    return key


def _check_times(claims: Mapping[str, Any], settings: OAuthSettings, now_ms: int) -> None:
    times = {name: claims[name] for name in ("exp", "iat", "nbf") if name in claims}
    for name, value in times.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > 1e12:
            raise TokenRefused(f"the claim {name} is {value!r} and not a time")
    now_s, skew_s = now_ms / 1000, settings.clock_skew_s
    if times["exp"] + skew_s <= now_s:
        raise TokenRefused("the token is over")
    if times.get("nbf", times["iat"]) - skew_s > now_s:
        raise TokenRefused("the token is not valid yet")
