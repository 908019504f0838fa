"""Tokens that are good, and every way not to be."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from ottla.security.sasl.oauth.validation import (
    MAX_TOKEN_CHARACTERS,
    OAuthSettings,
    TokenRefused,
    UnknownKey,
    ValidToken,
    read_keys,
    validate,
)
from tests.support.oauth import Issuer

SETTINGS = OAuthSettings("file:///keys")


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def check(issuer: Issuer, token: str, settings: OAuthSettings = SETTINGS) -> ValidToken:
    return validate(token, read_keys(issuer.jwks()), settings, now_ms())


def test_good_ones(issuer: Issuer) -> None:
    exp = int(time.time()) + 60
    for token in (issuer.token(exp=exp), issuer.ec_token(exp=exp)):
        assert check(issuer, token) == ValidToken("alice", exp * 1000)


def test_a_key_without_an_id_where_there_is_only_one(issuer: Issuer) -> None:
    document = json.loads(issuer.jwks())
    only = json.dumps({"keys": document["keys"][:1]}).encode()
    token = jwt.encode(issuer.claims(), issuer.rsa, algorithm="RS256")
    assert validate(token, read_keys(only), SETTINGS, now_ms()).subject == "alice"
    with pytest.raises(UnknownKey):
        check(issuer, token)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"exp": None}, 'missing the "exp" claim'),
        ({"iat": None}, 'missing the "iat" claim'),
        ({"exp": 1}, "the token is over"),
        ({"exp": "soon"}, "not a time"),
        ({"exp": True}, "not a time"),
        ({"exp": 1e300}, "not a time"),
        ({"nbf": 4_000_000_000}, "not valid yet"),
        ({"iat": 4_000_000_000}, "not valid yet"),
        ({"sub": None}, "the claim sub is not a name"),
        ({"sub": " "}, "the claim sub is not a name"),
        ({"sub": 7}, "the claim sub is not a name"),
        ({"aud": "others"}, "[Aa]udience"),
    ],
)
def test_claims(issuer: Issuer, changes: dict[str, Any], text: str) -> None:
    claims = {**issuer.claims(), **changes}
    claims = {name: value for name, value in claims.items() if value is not None}
    # PyJWT would not write some of these.
    token = _signed(issuer, claims)
    with pytest.raises(TokenRefused, match=text):
        check(issuer, token)


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _signed(issuer: Issuer, claims: dict[str, Any]) -> str:
    api = jwt.PyJWS()
    payload = json.dumps(claims).encode()
    return api.encode(payload, issuer.rsa, algorithm="RS256", headers={"kid": issuer.key_id})


def test_for_whom_and_from_whom(issuer: Issuer) -> None:
    settings = OAuthSettings("file:///keys", audiences=("kafka", "k2"), issuer="me")
    assert check(issuer, issuer.token(aud="k2", iss="me"), settings).subject == "alice"
    for changes in ({"aud": "k2"}, {"iss": "me"}, {"aud": "k2", "iss": "you"}):
        with pytest.raises(TokenRefused):
            check(issuer, issuer.token(**changes), settings)


def test_the_name_in_another_claim(issuer: Issuer) -> None:
    settings = OAuthSettings("file:///keys", subject_claim="client_id")
    assert check(issuer, issuer.token(client_id="job"), settings).subject == "job"


def test_a_little_late_is_in_time(issuer: Issuer) -> None:
    exp = int(time.time()) - 20
    assert check(issuer, issuer.token(exp=exp, iat=exp - 60)).expires_at_ms == exp * 1000
    with pytest.raises(TokenRefused, match="over"):
        check(issuer, issuer.token(exp=exp, iat=exp - 60), SETTINGS._replace(clock_skew_s=0))


def test_algorithms_that_prove_nothing(issuer: Issuer) -> None:
    body = _part(issuer.claims())
    for alg in ("none", "None", "nOnE"):
        for kid in (issuer.key_id, f"{issuer.key_id}-ec"):
            with pytest.raises(TokenRefused):
                check(issuer, f"{_part({'alg': alg, 'kid': kid})}.{body}.")
    # The public key, which everybody has, as the secret of an HMAC.
    public = issuer.rsa.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{_part({'alg': 'HS256', 'kid': issuer.key_id})}.{body}"
    mac = hmac.digest(public, signed.encode(), hashlib.sha256)
    forged = f"{signed}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    with pytest.raises(TokenRefused, match="does not go with the key"):
        check(issuer, forged)


def test_what_somebody_else_signed_or_changed(issuer: Issuer) -> None:
    stranger = Issuer()
    with pytest.raises(TokenRefused, match=r"[Ss]ignature"):
        check(issuer, stranger.token())
    head, _, signature = issuer.token().split(".")
    with pytest.raises(TokenRefused, match=r"[Ss]ignature"):
        check(issuer, f"{head}.{_part(issuer.claims('admin'))}.{signature}")
    with pytest.raises(UnknownKey):
        check(issuer, issuer.token(kid="k2"))


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "x" * (MAX_TOKEN_CHARACTERS + 1), "e30.e30.", "bnVsbA.e30.e30"],
)
def test_what_is_no_token(issuer: Issuer, token: str) -> None:
    with pytest.raises(TokenRefused):
        check(issuer, token)


def test_keys_that_are_none(issuer: Issuer) -> None:
    for document in (b"", b"[]", b"{}", b'{"keys":7}', b'{"keys":[]}', b"[" * 100_000):
        with pytest.raises(ValueError, match="JWKS"):
            read_keys(document)
    # A shared secret, a key to encrypt with and rubbish are passed over.
    good = json.loads(issuer.jwks())["keys"][0]
    odd = [{"kty": "oct", "k": "c2VjcmV0", "kid": "s"}, 7, {"kty": "RSA"}, {**good, "use": "enc"}]
    assert set(read_keys(json.dumps({"keys": [*odd, {**good, "kid": "g"}]}).encode())) == {"g"}
