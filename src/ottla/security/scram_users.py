"""The SCRAM credentials of all users, as the store has them (CredentialProvider).

They stand in `/config/users/<name>` beside the user's quotas. A broker reads all of them when it
starts and one again when a note under /config/changes names it, whoever wrote it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ottla.metadata.entity_configs import USERS, desanitize, read_entity, sanitize, user_names
from ottla.metadata.znodes import DEFAULT_ENTITY
from ottla.security.sasl.scram import (
    SCRAM_HASHES,
    ScramCredential,
    TokenCredential,
    credential_from_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.metadata.store import MetadataStore

logger = logging.getLogger(__name__)


class Tokens(Protocol):
    """Where delegation tokens are looked up."""

    def find(self, mechanism: str, token_id: str) -> TokenCredential | None: ...


class ScramUserCache:
    """A `ScramUsers` that follows the store."""

    def __init__(self, tokens: Tokens | None = None) -> None:
        """`tokens` is None where there are no delegation tokens."""
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._tokens = tokens

    def find(self, mechanism: str, name: str) -> ScramCredential | None:
        return self._credentials.get((mechanism, name))

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential | None:
        return None if self._tokens is None else self._tokens.find(mechanism, token_id)

    async def load_all(self, store: MetadataStore) -> None:
        """Every user that is there, and those that were; more than once where notes may have been
        missed."""
        known = {sanitize(name) for _, name in self._credentials}
        for name in sorted(known.union(await user_names(store))):
            await self.take(store, f"{USERS}/{name}")

    async def take(self, store: MetadataStore, entity_path: str) -> None:
        """Reads one user's credentials again; other entities are passed over."""
        entity_type, _, name = entity_path.partition("/")
        if entity_type == USERS and "/" not in name and name != DEFAULT_ENTITY:
            self.set(desanitize(name), await read_entity(store, entity_path))

    def set(self, name: str, configs: Mapping[str, str]) -> None:
        """Takes over one user's configs. A credential that cannot be read is none: it lets nobody
        in, and the other users are not concerned."""
        for mechanism in SCRAM_HASHES:
            text = configs.get(mechanism)
            credential = None
            if text is not None:
                try:
                    credential = credential_from_text(text)
                except ValueError as error:
                    logger.warning("%s of user %r cannot be used: %s", mechanism, name, error)
            if credential is None:
                self._credentials.pop((mechanism, name), None)
            else:
                self._credentials[mechanism, name] = credential
