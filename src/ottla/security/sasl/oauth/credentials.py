"""Where a client gets its token: a file, or a token endpoint by client credentials (KIP-768)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from ottla.config.definitions import ConfigError
from ottla.security.sasl.exchange import SaslRefused
from ottla.security.sasl.oauth.documents import read_document
from ottla.security.sasl.oauth.exchange import OAUTHBEARER, OAuthClientExchange

TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True)
class OAuthCredentials:
    """A token is asked for with every new connection: it may have ended since the last."""

    url: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""

    @property
    def mechanism(self) -> str:
        return OAUTHBEARER

    async def new_exchange(self, nonce: str) -> OAuthClientExchange:
        """Raises SaslRefused where no token can be had."""
        try:
            return OAuthClientExchange(await self._token())
        except (OSError, ValueError) as error:
            raise SaslRefused(f"no token from {_without_secrets(self.url)}: {error}") from None

    async def _token(self) -> str:
        if urlsplit(self.url).scheme == "file":
            token = (await read_document(self.url)).decode("ascii", "replace").strip()
        else:
            pair = f"{self.client_id}:{self.client_secret}".encode()
            form = {"grant_type": "client_credentials"}
            if self.scope:
                form["scope"] = self.scope
            headers = {
                "Authorization": f"Basic {base64.b64encode(pair).decode()}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            }
            token = _token_of(await read_document(self.url, urlencode(form).encode(), headers))
        if not token or not all(part.isalnum() or part in "-_." for part in token):
            raise ValueError("what came is not a token")
        return token


def _token_of(answer: bytes) -> str:
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        raise ValueError("the answer is not JSON") from None
    token = value.get("access_token") if isinstance(value, dict) else None
    if not isinstance(token, str):
        raise ValueError("the answer has no access_token")
    return token


def _without_secrets(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def oauth_credentials(properties: Mapping[str, str], jaas: Mapping[str, str]) -> OAuthCredentials:
    """From a client's properties and the options of its JAAS value; raises ConfigError."""
    url = properties.get(TOKEN_URL, "")
    if not url:
        raise ConfigError(f"OAUTHBEARER needs {TOKEN_URL}: file:///path/of/a/token or https://…")
    if urlsplit(url).scheme == "file":
        return OAuthCredentials(url)
    if not (jaas.get("clientId") and jaas.get("clientSecret")):
        raise ConfigError('sasl.jaas.config must name clientId="…" and clientSecret="…"')
    return OAuthCredentials(url, jaas["clientId"], jaas["clientSecret"], jaas.get("scope", ""))
