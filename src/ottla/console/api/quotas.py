"""Quotas, of the page Rights: how much may who?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from ottla.console.api.rights import MAX_NAME_CHARS, MAX_SHOWN, Changed, needs
from ottla.console.commands import ottla
from ottla.console.web.failures import invalid
from ottla.console.web.routes import Call, Route
from ottla.security.acls import Operation

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed

# KIP-13, KIP-124, KIP-599; connections of addresses KIP-612.
OF_CLIENTS = {
    "producer_byte_rate": "Bytes per second produced",
    "consumer_byte_rate": "Bytes per second consumed",
    "request_percentage": "Percent of a broker's threads",
    "controller_mutation_rate": "Partitions created and deleted per second",
}
OF_ADDRESSES = {"connection_creation_rate": "New connections per second"}
_FLAGS = {"user": "user", "client-id": "client", "ip": "ip"}
EntityType = Literal["user", "client-id", "ip"]


class EntityPart(msgspec.Struct):
    """`name` is null for the default of its type."""

    type: EntityType
    name: str | None = None


class FoundPart(msgspec.Struct):
    type: str
    name: str | None


class Quota(msgspec.Struct):
    entity: list[FoundPart]
    quotas: dict[str, float]


class Quotas(msgspec.Struct):
    quotas: list[Quota]
    # All there are; `quotas` has the first of them.
    total: int
    # What can be limited, in words: for users and clients, and for addresses.
    of_clients: dict[str, str]
    of_addresses: dict[str, str]


class QuotaChange(msgspec.Struct):
    """Sets and removes quotas of one entity; others that it has stay as they are."""

    entity: list[EntityPart]
    set: dict[str, float] = {}
    remove: list[str] = []


async def listing(call: Call) -> Quotas:
    found = await call.admin.describe_client_quotas((), strict=False)
    rows = sorted(
        (
            Quota([FoundPart(kind, name) for kind, name in _user_first(entity)], dict(values))
            for entity, values in found.items()
            if values
        ),
        key=lambda row: [
            (part.type != "user", part.name is None, part.name or "") for part in row.entity
        ],
    )
    return Quotas(rows[:MAX_SHOWN], len(rows), OF_CLIENTS, OF_ADDRESSES)


def _user_first(entity: tuple[tuple[str, str | None], ...]) -> list[tuple[str, str | None]]:
    return sorted(entity, key=lambda part: part[0] != "user")


def check(change: QuotaChange) -> None:
    """Raises ApiError at the field that is wrong; the rest is for the broker to say."""
    kinds = [part.type for part in change.entity]
    if not kinds:
        raise invalid("Say whose quota it is: a user, a client, or an address.", "user")
    if len(set(kinds)) < len(kinds) or ("ip" in kinds and len(kinds) > 1):
        raise invalid("A quota is for a user, a client, both, or an address alone.", "entity")
    for part in change.entity:
        if part.name is not None and not 0 < len(part.name) <= MAX_NAME_CHARS:
            raise invalid("Give a name, or choose the default.", part.type)
    known = OF_ADDRESSES if "ip" in kinds else OF_CLIENTS
    for name in (*change.set, *change.remove):
        if name not in known:
            raise invalid(f"{name[:100]} is not one of {', '.join(known)}.", name[:100])
    for name, value in change.set.items():
        if not value > 0:
            raise invalid("It must be greater than 0.", name)
    if not change.set and not change.remove:
        raise invalid("Give at least one limit.", next(iter(known)))


async def change(call: Call) -> Changed:
    body: QuotaChange = call.body
    check(body)
    entity = tuple((part.type, part.name) for part in body.entity)
    await call.admin.alter_client_quotas(entity, dict.fromkeys(body.remove) | body.set)
    return Changed(len(body.set) + len(body.remove))


def _commands(call: Call) -> list[str]:
    body: QuotaChange = call.body
    check(body)
    words = ["--alter"]
    for part in body.entity:
        flag = _FLAGS[part.type]
        words += [f"--{flag}-defaults"] if part.name is None else [f"--{flag}", part.name]
    if body.set:
        added = ",".join(f"{name}={number_text(value)}" for name, value in body.set.items())
        words += ["--add-config", added]
    removed = [name for name in body.remove if name not in body.set]
    if removed:
        words += ["--delete-config", ",".join(removed)]
    return [ottla(call.settings, "configs", *words)]


def number_text(value: float) -> str:
    """Whole numbers as such: rates of bytes take no others."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


ROUTES = [
    Route(
        "GET",
        "/quotas",
        needs(Operation.DESCRIBE_CONFIGS, listing),
        "Quotas of users, clients and addresses",
        answer=Quotas,
    ),
    Route(
        "POST",
        "/quotas",
        needs(Operation.ALTER_CONFIGS, change),
        "Set and remove quotas",
        answer=Changed,
        body=QuotaChange,
        commands=_commands,
    ),
]
FEEDS: list[Feed] = []
