"""Whom quotas are for: users, clients, clients of users and addresses, under the names that they
have in the store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from ottla.metadata.entity_configs import sanitize
from ottla.metadata.store import NoNodeError
from ottla.metadata.znodes import DEFAULT_ENTITY, ConfigZnode

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore

USERS, CLIENTS, IPS = "users", "clients", "ips"


class Entity(NamedTuple):
    """Whom a quota is for, in the names of the znodes; None is a level that is not there. An
    address stands alone."""

    user: str | None
    client: str | None
    ip: str | None = None


def resolve(rates: Mapping[Entity, float], user: str, client: str) -> tuple[float, Entity] | None:
    """The rate that counts and whose bucket it is; None where there is no quota.

    The order is Kafka's (ClientQuotaManager): the nearest level wins, names before defaults. A
    client without an id has no quota of client ids, not even their default.
    """
    named_clients = (client, DEFAULT_ENTITY) if client else ()
    for named_user in (user, DEFAULT_ENTITY):
        for named_client in named_clients:
            level = Entity(named_user, named_client)
            if level in rates:
                return rates[level], Entity(user, client)
        level = Entity(named_user, None)
        if level in rates:
            return rates[level], Entity(user, None)
    for named_client in named_clients:
        level = Entity(None, named_client)
        if level in rates:
            return rates[level], Entity(None, client)
    return None


def path_of(entity: Entity) -> str:
    parts = [f"{USERS}/{entity.user}"] if entity.user is not None else []
    parts += [f"{CLIENTS}/{entity.client}"] if entity.client is not None else []
    parts += [f"{IPS}/{entity.ip}"] if entity.ip is not None else []
    return "/".join(parts)


def parse_entity(entity_path: str) -> Entity | None:
    match entity_path.split("/"):
        case ["users", user]:
            return Entity(user, None)
        case ["clients", client]:
            return Entity(None, _client(client))
        case ["users", user, "clients", client]:
            return Entity(user, _client(client))
        case ["ips", ip]:
            return Entity(None, None, ip)
    return None


def _client(name: str) -> str:
    """Kafka compares client ids unescaped, so `a%2fb`, written by hand, is the client a/b too."""
    return name if name == DEFAULT_ENTITY else sanitize(unquote_plus(name))


async def all_entity_paths(store: MetadataStore) -> list[str]:
    """Every user, client, client of a user and address that has configs."""
    paths = [f"{CLIENTS}/{client}" for client in await _children(store, ConfigZnode.path(CLIENTS))]
    for user in await _children(store, ConfigZnode.path(USERS)):
        paths.append(f"{USERS}/{user}")
        below = await _children(store, f"{ConfigZnode.path(USERS, user)}/{CLIENTS}")
        paths += [f"{USERS}/{user}/{CLIENTS}/{client}" for client in below]
    paths += [f"{IPS}/{ip}" for ip in await _children(store, ConfigZnode.path(IPS))]
    return paths


async def _children(store: MetadataStore, path: str) -> list[str]:
    try:
        return await store.children(path)
    except NoNodeError:
        return []


class StoredQuotas(ABC):
    """Quotas that are taken from the config znodes of users and clients, or of addresses."""

    of_addresses = False

    async def load_all(self, store: MetadataStore) -> None:
        for entity_path in await all_entity_paths(store):
            await self.take(store, entity_path)

    async def take(self, store: MetadataStore, entity_path: str) -> None:
        """Reads one entity's configs again, of `users/u`, `clients/c`, `users/u/clients/c` or
        `ips/i`."""
        entity = parse_entity(entity_path)
        if entity is None or (entity.ip is not None) != self.of_addresses:
            return
        try:
            data, _ = await store.get(f"/config/{entity_path}")
        except NoNodeError:
            data = None
        self.set(entity, ConfigZnode.decode(data))

    @abstractmethod
    def set(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """Takes over one entity's configs; anything but a positive number counts as none."""
