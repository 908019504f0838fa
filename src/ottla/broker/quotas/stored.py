"""Quotas as clients name them and as they are stored (ZkAdminManager's client quotas, KIP-546)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_plus

from ottla.broker.quotas.clients import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ottla.broker.quotas.connection_rates import RATE_OF_ADDRESS, addresses_of
from ottla.broker.quotas.entities import Entity, all_entity_paths, parse_entity, path_of
from ottla.broker.quotas.mutations import CONFIG as CONTROLLER_MUTATION_RATE
from ottla.config.definitions import INT_MAX
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.entity_configs import change_entity, read_entity, sanitize
from ottla.metadata.znodes import DEFAULT_ENTITY

if TYPE_CHECKING:
    from ottla.metadata.store import MetadataStore

USER, CLIENT_ID, IP = "user", "client-id", "ip"
_LONG, _INT = ("LONG", (1 << 63) - 1), ("INT", INT_MAX)
_WHOLE = {PRODUCER_BYTE_RATE: _LONG, CONSUMER_BYTE_RATE: _LONG, RATE_OF_ADDRESS: _INT}
KEYS = _WHOLE.keys() | {REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
_EXACT, _DEFAULT, _ANY = range(3)
_EPSILON = 1e-6


class Component(NamedTuple):
    """One condition of a filter: an exact name, the default, or any that is there."""

    entity_type: str
    match_type: int
    match: str | None


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Whom a request is about, in the names of the znodes; a name of None is the default."""
    names: dict[str, str] = {}
    for entity_type, name in parts:
        if entity_type in names:
            raise _invalid(f"Duplicate entity type in entity: {entity_type}")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {entity_type}")
        if name == "":
            raise _invalid(f"Empty {entity_type} not supported")
        if entity_type == IP and name is not None and not addresses_of(name):
            # Kafka looks names up, too; here an address is what peers are known by.
            raise _invalid(f"{name} is not a valid IP or resolvable host.")
        names[entity_type] = DEFAULT_ENTITY if name is None else sanitize(name)
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP in names and len(names) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity should not be used with user/client ID "
            "entity."
        )
    return Entity(names.get(USER), names.get(CLIENT_ID), names.get(IP))


def named(entity: Entity) -> list[tuple[str, str | None]]:
    """The other way round."""
    parts = []
    for entity_type, name in _by_type(entity).items():
        if name is not None:
            parts.append((entity_type, None if name == DEFAULT_ENTITY else unquote_plus(name)))
    return parts


def _by_type(entity: Entity) -> dict[str, str | None]:
    return {USER: entity.user, CLIENT_ID: entity.client, IP: entity.ip}


def value_text(entity: Entity, key: str, value: float) -> str:
    """A quota as it is stored: rates of bytes and connections are whole numbers, the others Java's
    doubles."""
    if key not in KEYS or (key == RATE_OF_ADDRESS) != (entity.ip is not None):
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        # As Kafka 4 does; 2.8 stores it and then does not throttle at all.
        raise _invalid(f"Quota {key} must be greater than 0")
    if key in _WHOLE:
        kind, largest = _WHOLE[key]
        whole = int(value + _EPSILON) if value <= largest else 0
        if not abs(whole - value) <= _EPSILON:
            raise _invalid(f"Configuration {key} must be a {kind} value")
        return str(whole)
    if not math.isfinite(value):
        raise _invalid(f"Configuration {key} must be a number")
    return repr(float(value))


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)


def check_filter(components: Iterable[Component]) -> dict[str, Component]:
    """The conditions by type; raises INVALID_REQUEST or UNSUPPORTED_VERSION as Kafka does."""
    found: dict[str, Component] = {}
    for component in components:
        entity_type = component.entity_type
        if entity_type in found:
            raise _invalid(f"Duplicate {entity_type} filter component entity type")
        if entity_type == "":
            raise _invalid("Unexpected empty filter component entity type")
        if entity_type not in (USER, CLIENT_ID, IP):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{entity_type}' not supported"
            )
        if component.match_type not in (_EXACT, _DEFAULT, _ANY):
            raise _invalid(f"Unexpected match type: {component.match_type}")
        if (component.match_type == _EXACT) != (component.match is not None):
            raise _invalid("A name goes with an exact match, and only with that")
        found[entity_type] = component
    if IP in found and len(found) > 1:
        raise _invalid(
            "Invalid entity filter component combination, IP filter component should not be used "
            "with user or clientId filter component."
        )
    return found


def is_wanted(entity: Entity, components: Mapping[str, Component], *, strict: bool) -> bool:
    for entity_type, name in _by_type(entity).items():
        component = components.get(entity_type)
        if component is None:
            if strict and name is not None:
                return False
        elif name is None or not _matches(component, name):
            return False
    return True


def _matches(component: Component, name: str) -> bool:
    if component.match_type == _ANY:
        return True
    if component.match_type == _DEFAULT:
        return name == DEFAULT_ENTITY
    return name == sanitize(component.match or "")


async def read_all(store: MetadataStore) -> dict[Entity, dict[str, float]]:
    """All quotas that are set."""
    found = {}
    for entity_path in await all_entity_paths(store):
        entity = parse_entity(entity_path)
        values = _numbers(await read_entity(store, entity_path))
        if entity is not None and values:
            found[entity] = values
    return found


def _numbers(configs: Mapping[str, str]) -> dict[str, float]:
    """The quotas among an entity's configs; a user may have SCRAM credentials beside them."""
    values = {}
    for key in sorted(configs.keys() & KEYS):
        try:
            values[key] = float(configs[key])
        except ValueError:
            continue
    return values


async def change(
    store: MetadataStore, entity: Entity, edits: Mapping[str, str | None], *, validate_only: bool
) -> None:
    """Sets and, with None, removes quotas of one entity, and tells all brokers."""

    def edit(configs: dict[str, str]) -> dict[str, str]:
        kept = {key: text for key, text in configs.items() if key not in edits}
        return kept | {key: text for key, text in edits.items() if text is not None}

    if not validate_only:
        await change_entity(store, path_of(entity), edit)
