"""Who may do what: ACL schemes world, auth, digest, x509, ip (PrepRequestProcessor.fixupACL)."""

from __future__ import annotations

import base64
import hashlib
import hmac
from functools import lru_cache
from typing import NamedTuple

from ottla.metadata.store import OPEN_ACL, Acl, AuthFailedError, InvalidAclError, NoAuthError

READ = 1
WRITE = 2
CREATE = 4
DELETE = 8
ADMIN = 16

# Who one is, in the sense of the scheme `auth`.
_PROVED = ("digest", "x509")
# Who proved the super user's digest passes every ACL.
_SUPER = "super"

# What one connection may prove about itself. The scheme `auth` puts all of it into every node that
# is made with it, so that few bytes would become many.
MAX_IDENTITIES = 16
MAX_CREDENTIAL_BYTES = 1024
# What is kept for sharing is bounded.
_MAX_SHARED_CHARS = 4096
# No address is longer, with its mask.
_MAX_NETWORK_CHARS = 64


class Identity(NamedTuple):
    """Something a connection has proved about itself."""

    scheme: str
    id: str


def digest_identity(credential: bytes) -> Identity:
    """`user:password` as ZooKeeper's DigestAuthenticationProvider stores it."""
    user = credential.partition(b":")[0]
    digest = base64.b64encode(hashlib.sha1(credential).digest()).decode("ascii")
    return Identity("digest", f"{user.decode('utf-8', 'replace')}:{digest}")


def with_proof(
    identities: tuple[Identity, ...], credential: bytes | None, super_digest: str | None
) -> tuple[Identity, ...]:
    """The identities of a connection that also shows `user:password`. Raises AuthFailedError where
    it is none, or one more than a connection may have."""
    if not credential or b":" not in credential or len(credential) > MAX_CREDENTIAL_BYTES:
        raise AuthFailedError("digest")
    proved = proved_by(credential, super_digest)
    fresh = tuple(identity for identity in proved if identity not in identities)
    if len(identities) + len(fresh) > MAX_IDENTITIES:
        raise AuthFailedError("digest")
    return identities + fresh


def proved_by(credential: bytes, super_digest: str | None) -> tuple[Identity, ...]:
    """What `user:password` proves: who one is, and maybe that one may do everything."""
    identity = digest_identity(credential)
    if super_digest is not None and hmac.compare_digest(
        identity.id.encode(), super_digest.encode()
    ):
        return Identity(_SUPER, ""), identity
    return (identity,)


def resolve(acls: tuple[Acl, ...], identities: tuple[Identity, ...], path: str) -> tuple[Acl, ...]:
    """The list as it is stored: duplicates gone, `auth` replaced by the caller's identities."""
    if acls is OPEN_ACL:
        return acls
    resolved: dict[Acl, None] = {}
    for acl in acls:
        if acl.scheme == "world" and acl.id == "anyone":
            resolved[acl] = None
        elif acl.scheme == "auth":
            proved = [identity for identity in identities if identity.scheme in _PROVED]
            if not proved:
                raise InvalidAclError(path)
            for identity in proved:
                resolved[Acl(acl.perms, identity.scheme, identity.id)] = None
        elif _is_valid(acl):
            resolved[acl] = None
        else:
            raise InvalidAclError(path)
    if not resolved:
        raise InvalidAclError(path)
    stored = tuple(resolved)
    return OPEN_ACL if stored == OPEN_ACL else shared(stored)


def shared(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """An equal list that another node has, where there is one: nodes have few different ones, as
    ZooKeeper's ReferenceCountedACLCache expects."""
    if sum(len(acl.id) for acl in acls) > _MAX_SHARED_CHARS:
        return acls
    return _first_equal(acls)


@lru_cache(maxsize=1024)
def _first_equal(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    return acls


def check(
    acls: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...], path: str
) -> None:
    """Raises NoAuthError unless one entry grants `permission` to one of the identities."""
    if acls is OPEN_ACL or not acls:
        return
    if any(identity.scheme == _SUPER for identity in identities):
        return
    for acl in acls:
        if acl.perms & permission and _matches(acl, identities):
            return
    raise NoAuthError(path)


def allows(acls: tuple[Acl, ...], permission: int, identities: tuple[Identity, ...]) -> bool:
    try:
        check(acls, permission, identities, "")
    except NoAuthError:
        return False
    return True


def masked(acls: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """What a reader without ADMIN sees: password digests are blanked (ZOOKEEPER-1392)."""
    return tuple(
        acl._replace(id=acl.id.partition(":")[0] + ":x") if acl.scheme == "digest" else acl
        for acl in acls
    )


def _matches(acl: Acl, identities: tuple[Identity, ...]) -> bool:
    if acl.scheme == "world":
        return acl.id == "anyone"
    for identity in identities:
        if identity.scheme != acl.scheme:
            continue
        if identity.id == acl.id:
            return True
        if (
            acl.scheme == "ip"
            and len(acl.id) <= _MAX_NETWORK_CHARS
            and _in_network(identity.id, acl.id)
        ):
            return True
    return False


@lru_cache(maxsize=4096)  # an entry costs 10 µs, and may be looked at for each operation of a multi
def _in_network(address: str, network: str) -> bool:
    import ipaddress  # rarely needed: keeps the broker's import time down

    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _is_valid(acl: Acl) -> bool:
    if acl.scheme == "digest":
        return acl.id.count(":") == 1 and not acl.id.startswith(":")
    if acl.scheme == "x509":  # the name in a certificate
        return "=" in acl.id
    if acl.scheme == "ip" and len(acl.id) <= _MAX_NETWORK_CHARS:
        import ipaddress  # as above

        try:
            ipaddress.ip_network(acl.id, strict=False)
        except ValueError:
            return False
        return True
    return False
