"""What may be set differently from store to store; the names are those of ZooKeeper's settings."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

from ottla.errors import OttlaError
from ottla.zk.server.words import ALL_WORDS

# ContainerManager's interval: what a look finds idle goes.
CONTAINER_CHECK_MS = 60_000


# Four-letter words that anybody may ask. ZooKeeper answers srvr alone by default; these tell no
# more than counts and a version. Who is connected, and where files are, is for those who allow it.
DEFAULT_WORDS = frozenset(("envi", "isro", "mntr", "ruok", "srvr"))


class BadWord(OttlaError):
    """A name that is not one of a four-letter word."""


class BadSuperDigest(OttlaError):
    """What was given for the digest of the super user is none."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    # zookeeper.extendedTypesEnabled: nodes with a time to live may be made.
    extended_types: bool = False
    # zookeeper.DigestAuthenticationProvider.superDigest: who proves this passes every ACL.
    super_digest: str | None = None
    # 4lw.commands.whitelist
    words: frozenset[str] = DEFAULT_WORDS
    # znode.container.checkIntervalMs
    container_check_ms: int = CONTAINER_CHECK_MS


def parse_words(text: str) -> frozenset[str]:
    """`4lw.commands.whitelist`: names with commas between them, or `*`."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if "*" in names:
        return ALL_WORDS
    unknown = sorted(names - ALL_WORDS)
    if unknown:
        raise BadWord(f"{unknown[0]!r} is no word of this store: {', '.join(sorted(ALL_WORDS))}")
    return names


def parse_super_digest(text: str) -> str:
    """`user:` and the SHA-1 of `user:password` in base64, as DigestAuthenticationProvider prints
    it. A password by mistake is refused here, and not repeated in the message."""
    digest = text.strip()
    user, colon, encoded = digest.partition(":")
    try:
        size = len(base64.b64decode(encoded, validate=True))
    except (binascii.Error, ValueError):
        size = 0
    if not user or not colon or size != hashlib.sha1().digest_size:
        raise BadSuperDigest(
            "the super user's digest must be `user:` and the base64 of the SHA-1 of `user:password`"
        )
    return digest
