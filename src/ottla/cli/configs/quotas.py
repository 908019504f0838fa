"""Quotas in `ottla configs`: entity types users and clients, one or both, and ips, as kafka-configs
has them, with the SCRAM credentials of users beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.configs import scram
from ottla.cli.configs.options import CLIENTS, IPS, USERS, Entity
from ottla.cli.options import print_json
from ottla.config.definitions import format_double, java_double
from ottla.security.sasl.scram import SCRAM_HASHES

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.quotas import QuotaEntity

QUOTAS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)
QUOTAS_OF_ADDRESSES = ("connection_creation_rate",)
# Types on the command line, in a request, and in words.
_TYPES = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_WORDS = {"user": "user-principal", "client-id": "client-id"}


async def describe(admin: Admin, entities: Sequence[Entity], *, as_json: bool) -> None:
    found = await admin.describe_client_quotas((_TYPES[e.type], e.name) for e in entities)
    # By name, the defaults last: Kafka's order is that of a hash map.
    rows = sorted(found.items(), key=lambda row: [(n is None, n or "") for _, n in _sorted(row[0])])
    credentials = {}
    if [entity.type for entity in entities] == [USERS] and entities[0].name != "":
        credentials = await scram.describe(admin, entities[0])
    if as_json:
        print_json(
            [{"entity": dict(entity), "quotas": quotas} for entity, quotas in rows]
            + [{"entity": {"user": user}, "scram": own} for user, own in credentials.items()]
        )
        return
    for entity, quotas in rows:
        click.echo(f"Quota configs for {_in_words(entity)} are {_values(quotas)}")
    for user, own in credentials.items():
        text = scram.values_text(own)
        click.echo(f"SCRAM credential configs for user-principal '{user}' are {text}")


async def alter(
    admin: Admin,
    entities: Sequence[Entity],
    added: Mapping[str, str],
    removed: Sequence[str],
    *,
    as_json: bool,
) -> None:
    _check_names(entities, added, removed)
    if scram.is_about_scram(added, removed):
        scram.check_alone(entities[0], added, removed)
        await scram.alter(admin, entities[0].name or "", added, removed)
    else:
        await _alter_quotas(admin, entities, added, removed)
    if as_json:
        entity = {_TYPES[entity.type]: entity.name or None for entity in entities}
        print_json({"entity": entity, "set": sorted(added), "deleted": list(removed)})
        return
    first = entities[0]
    if first.name:
        click.echo(f"Completed updating config for {first.singular} {first.name}.")
    else:
        click.echo(f"Completed updating default config for {first.type} in the cluster.")


async def _alter_quotas(
    admin: Admin, entities: Sequence[Entity], added: Mapping[str, str], removed: Sequence[str]
) -> None:
    quotas: dict[str, float | None] = {name: _parse(name, text) for name, text in added.items()}
    wanted = [(_TYPES[entity.type], entity.name) for entity in entities]
    present = await admin.describe_client_quotas(wanted)
    own = {name for values in present.values() for name in values}
    unknown = [name for name in removed if name not in own]
    if unknown:
        raise click.UsageError(f"Invalid config(s): {','.join(unknown)}")
    quotas |= dict.fromkeys(removed)
    await admin.alter_client_quotas(tuple((kind, name or None) for kind, name in wanted), quotas)


def _check_names(
    entities: Sequence[Entity], added: Mapping[str, str], removed: Sequence[str]
) -> None:
    kind = CLIENTS if any(entity.type == CLIENTS for entity in entities) else entities[0].type
    known, what = {
        IPS: (QUOTAS_OF_ADDRESSES, "connection quota"),
        CLIENTS: (QUOTAS, "quota"),
        USERS: ((*QUOTAS, *SCRAM_HASHES), "quota and SCRAM credential"),
    }[kind]
    for names, verb in ((added, "added"), (removed, "deleted")):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise click.UsageError(
                f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. "
                f"Unexpected config names: {', '.join(unknown)}"
            )


def _parse(name: str, text: str) -> float:
    try:
        number = java_double(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise click.UsageError(f"Cannot parse quota configuration value for {name}: {text}")
    return number


def _sorted(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    """The user in front."""
    return sorted(entity, key=lambda part: part[0] != _TYPES[USERS])


def _in_words(entity: QuotaEntity) -> str:
    parts = ((_WORDS.get(kind, kind), name) for kind, name in _sorted(entity))
    return ", ".join(f"the default {kind}" if n is None else f"{kind} '{n}'" for kind, n in parts)


def _values(quotas: Mapping[str, float]) -> str:
    from ottla.cli.java_order import hash_map_order

    names = hash_map_order(quotas, table=1)
    return ", ".join(f"{name}={format_double(quotas[name])}" for name in names)
