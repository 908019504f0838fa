"""SCRAM credentials in `ottla configs --entity-type users`, as kafka-configs has them.

`SCRAM-SHA-256=[iterations=8192,password=…]`. A password on a command line can be read by everybody
on the machine, so that there are two more ways: `password-file=PATH` (`-` for standard input), and
nothing, which asks for it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.configs.options import USERS, Entity
from ottla.client.admin.scram import NewScramCredential
from ottla.errors import ErrorCode, KafkaError
from ottla.security.sasl.scram import MIN_ITERATIONS, SCRAM_HASHES

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

_VALUE = re.compile(
    r"(?:iterations=(?P<iterations>-?[0-9]{1,9}))?"
    r"(?:(?:(?<=[0-9]),|^)(?:password=(?P<password>.*)|password-file=(?P<file>.+)))?",
    re.DOTALL,
)


def is_about_scram(added: Mapping[str, str], removed: Sequence[str]) -> bool:
    return any(name in SCRAM_HASHES for name in (*added, *removed))


def check_alone(entity: Entity, added: Mapping[str, str], removed: Sequence[str]) -> None:
    """Credentials are altered by themselves, of one user (ConfigCommand.alterConfig)."""
    if not entity.name:
        raise click.UsageError(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM "
            "Credentials using --bootstrap-server."
        )
    if any(name not in SCRAM_HASHES for name in (*added, *removed)):
        raise click.UsageError(
            f"Cannot alter both quota and SCRAM credential configs simultaneously for '{USERS}' "
            "using --bootstrap-server."
        )


def new_credentials(user: str, added: Mapping[str, str]) -> list[NewScramCredential]:
    """What is to be set, with passwords from wherever they come."""
    return [_new_credential(user, mechanism, text) for mechanism, text in added.items()]


def _new_credential(user: str, mechanism: str, text: str) -> NewScramCredential:
    found = _VALUE.fullmatch(text.strip().removeprefix("[").removesuffix("]"))
    if found is None:
        # Kafka repeats the value here, password and all.
        raise click.UsageError(
            f"Invalid credential property {mechanism}: it is [iterations=N,password=TEXT], "
            "[iterations=N,password-file=PATH] or [iterations=N]"
        )
    given = found["iterations"]
    iterations = MIN_ITERATIONS if given in (None, "-1") else int(given)
    if iterations < MIN_ITERATIONS:
        raise click.UsageError(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for "
            f"{mechanism}"
        )
    password = found["password"]
    if password is None:
        password = _read_password(found["file"]) if found["file"] else _ask(user, mechanism)
    if not password:
        raise click.UsageError(f"The password for {mechanism} is empty.")
    return NewScramCredential(mechanism, iterations, password)


def _read_password(file: str) -> str:
    """The first line."""
    try:
        text = sys.stdin.readline() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise click.UsageError(f"Cannot read the password from {file}: {reason}") from None
    return text.partition("\n")[0].removesuffix("\r")


def _ask(user: str, mechanism: str) -> str:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"There is no terminal to ask for the password of {user}: add "
            f"password-file=PATH to {mechanism}=[…], with - for standard input"
        )
    asked: str = click.prompt(
        f"Password of {user} for {mechanism}", hide_input=True, confirmation_prompt=True, err=True
    )
    return asked


async def alter(admin: Admin, user: str, added: Mapping[str, str], removed: Sequence[str]) -> None:
    credentials = new_credentials(user, added)
    done = await admin.alter_user_scram_credentials({user: credentials}, {user: list(removed)})
    for error in done.values():
        if error is not None:
            raise error


async def describe(admin: Admin, entity: Entity) -> dict[str, dict[str, int]]:
    """Iterations by mechanism, of the user or of all that have a credential."""
    found = await admin.describe_user_scram_credentials([entity.name] if entity.name else [])
    described = {}
    for user, credentials in found.items():
        if isinstance(credentials, KafkaError):
            if credentials.code is not ErrorCode.RESOURCE_NOT_FOUND:
                click.echo(
                    f"Error retrieving SCRAM credential configs for user-principal '{user}': "
                    f"{credentials}",
                    err=True,
                )
        else:
            described[user] = credentials
    return described


def values_text(credentials: Mapping[str, int]) -> str:
    return ", ".join(f"{name}=iterations={count}" for name, count in credentials.items())
