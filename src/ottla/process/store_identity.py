"""Who a broker is on the store, and what follows: which znodes are its own.

Where an authoriser decides what clients may do, the port of the store must be no way round it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.config.definitions import ConfigError
from ottla.process.data_folder import digest_path, write_private
from ottla.process.up_options import (
    AUTHORIZER,
    DIGEST_FILE,
    SET_ACL,
    UpOptions,
    broker_properties,
    protection,
)

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore
    from ottla.zk.client.store import ZooKeeperClient
    from ottla.zk.server.engine import Engine

logger = logging.getLogger(__name__)

_USER = "ottla"
_SECRET_BYTES = 32


def store_credentials(config: BrokerConfig) -> list[tuple[str, bytes]]:
    """What the broker shows to the store. Raises OttlaError for a file that cannot be used."""
    name = config.optional_text(DIGEST_FILE)
    if name is None:
        if config.boolean(SET_ACL):
            raise ConfigError(
                f"{SET_ACL} is set to true, but this broker has no identity on the store: "
                f"{DIGEST_FILE} names a file with user:password"
            )
        if config.text(AUTHORIZER):
            logger.warning(
                "%s is set, but whoever reaches the store can change everything there, ACLs "
                "included: set %s and %s=true",
                AUTHORIZER,
                DIGEST_FILE,
                SET_ACL,
            )
        return []
    from ottla.zk.credentials import digest_credentials

    return digest_credentials(Path(name))


class _Authenticating(Protocol):
    async def add_auth(self, scheme: str, credential: bytes) -> None: ...


async def with_identity(config: BrokerConfig, store: MetadataStore) -> MetadataStore:
    """A store in this process, which proves who it is as any other."""
    proving: _Authenticating = store  # type: ignore[assignment]  # the embedded store, then
    for scheme, credential in store_credentials(config):
        await proving.add_auth(scheme, credential)
    return _secured_if_asked(config, store)


async def secured(config: BrokerConfig, store: ZooKeeperClient) -> MetadataStore:
    """A connected client, with its chroot made."""
    if not config.boolean(SET_ACL):
        if store.chroot:
            await store.create_chroot()
        return store
    from ottla.metadata.node_acls import acl_for, is_open

    if store.chroot:
        await store.create_chroot(acl_for("/"))
    if await is_open(store, "/brokers"):
        logger.warning(
            "znodes that were made before %s was true can be changed by anybody: "
            "`ottla zk secure` closes them",
            SET_ACL,
        )
    return _secured_if_asked(config, store)


def _secured_if_asked(config: BrokerConfig, store: MetadataStore) -> MetadataStore:
    if not config.boolean(SET_ACL):
        return store
    from ottla.metadata.node_acls import SecuredStore

    return SecuredStore(store)


# --- `ottla up` -----------------------------------------------------------------------------------


def prepare(options: UpOptions) -> None:
    """Draws the secret of a cluster, once in the life of its data folder."""
    path = digest_path(options.data)
    if protection(options) and not path.exists():
        import secrets  # for this alone

        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, f"{_USER}:{secrets.token_urlsafe(_SECRET_BYTES)}\n")


async def protect(options: UpOptions, engine: Engine) -> None:
    """Closes the store of `ottla up`, also one that was open before."""
    properties = broker_properties(options, 0)
    file = properties.get(DIGEST_FILE)
    if file is None or properties.get(SET_ACL, "").lower() != "true":
        return
    from ottla.metadata.node_acls import close_tree
    from ottla.zk.credentials import DIGEST, read_digest
    from ottla.zk.embedded import EmbeddedStore

    store = EmbeddedStore(engine)
    try:
        await store.add_auth(DIGEST, read_digest(Path(file)))
        closed = await close_tree(store)
    finally:
        await store.close()
    if closed:
        logger.info("%d znodes can be changed by the brokers alone from now on", closed)
