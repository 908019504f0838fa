"""`ottla configs --zookeeper`: SCRAM credentials written to the store directly.

For the brokers' own user, which must be there before the first broker can start. All other configs
are changed through a broker, which checks them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import click

from ottla.cli.configs import scram
from ottla.cli.configs.options import USERS, ConfigOptions, Entity
from ottla.cli.options import print_json, store_runtime
from ottla.client.admin.zookeeper import ZooKeeperAdmin
from ottla.security.sasl.scram import (
    SCRAM_HASHES,
    credential_from_text,
    credential_to_text,
    new_credential,
)

_SALT_BYTES = 16


async def execute(
    options: ConfigOptions, entities: Sequence[Entity], added: Mapping[str, str], removed: list[str]
) -> None:
    entity = entities[0]
    if len(entities) > 1 or entity.type != USERS:
        raise click.UsageError(
            "--zookeeper is for SCRAM credentials of users before brokers run; use "
            "--bootstrap-server for everything else"
        )
    async with await ZooKeeperAdmin.connect(
        store_runtime(), options.zookeeper or "", options.zk_credentials
    ) as admin:
        if options.alter:
            await _alter(admin, entity, added, removed)
        else:
            await _describe(admin, entity, as_json=options.output == "json")


async def _alter(
    admin: ZooKeeperAdmin, entity: Entity, added: Mapping[str, str], removed: list[str]
) -> None:
    unknown = [name for name in (*added, *removed) if name not in SCRAM_HASHES]
    if unknown or not entity.name:
        raise click.UsageError(
            "Only SCRAM credentials of one user can be changed using --zookeeper"
            + (f". Unexpected config names: {', '.join(unknown)}" if unknown else "")
        )
    stored = {}
    for mechanism, iterations, password in scram.new_credentials(entity.name, added):
        salt = secrets.token_bytes(_SALT_BYTES)
        credential = new_credential(mechanism, password, salt, iterations)
        stored[mechanism] = credential_to_text(credential)

    def edit(configs: dict[str, str]) -> dict[str, str]:
        missing = [name for name in removed if name not in configs]
        if missing:
            raise click.UsageError(f"Invalid config(s): {','.join(missing)}")
        return {k: v for k, v in (configs | stored).items() if k not in removed}

    await admin.change_user_configs(entity.name, edit)
    click.echo(f"Completed updating config for entity: user-principal '{entity.name}'.")


async def _describe(admin: ZooKeeperAdmin, entity: Entity, *, as_json: bool) -> None:
    if entity.name == "":
        raise click.UsageError("There are no SCRAM credentials of --entity-default")
    names = await admin.user_names() if entity.name is None else [entity.name]
    found = {name: _iterations(await admin.user_configs(name)) for name in names}
    described = {name: credentials for name, credentials in found.items() if credentials}
    if as_json:
        print_json([{"entity": {"user": name}, "scram": own} for name, own in described.items()])
        return
    for name, credentials in described.items():
        click.echo(f"Configs for user-principal '{name}' are {scram.values_text(credentials)}")


def _iterations(configs: Mapping[str, str]) -> dict[str, int]:
    """Not the credentials themselves, which Kafka prints."""
    described = {}
    for mechanism in SCRAM_HASHES:
        if mechanism in configs:
            try:
                described[mechanism] = credential_from_text(configs[mechanism]).iterations
            except ValueError as error:
                click.echo(f"{mechanism} cannot be used: {error}", err=True)
    return described
