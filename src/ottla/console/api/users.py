"""Users with a password (SCRAM, KIP-554), of the page Rights: who is there?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ottla.client.admin.scram import NewScramCredential
from ottla.console.api.rights import MAX_NAME_CHARS, MAX_SHOWN, Changed, needs
from ottla.console.commands import ottla
from ottla.console.web.failures import ApiError, invalid
from ottla.console.web.routes import Call, Route
from ottla.errors import KafkaError
from ottla.security.acls import Operation
from ottla.security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_HASHES

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed

MECHANISMS = tuple(SCRAM_HASHES)
DEFAULT_ITERATIONS = 8192
_MAX_PASSWORD_CHARS = 4096


class User(msgspec.Struct):
    name: str
    # Rounds of hashing by mechanism.
    mechanisms: dict[str, int]


class Users(msgspec.Struct):
    users: list[User]
    # All there are; `users` has the first of them.
    total: int
    mechanisms: list[str]
    least_iterations: int
    most_iterations: int


class NewPassword(msgspec.Struct):
    user: str
    mechanism: str
    password: str
    iterations: int = DEFAULT_ITERATIONS

    def __repr__(self) -> str:
        return f"NewPassword({self.user!r}, {self.mechanism!r}, ..., {self.iterations})"


class OldPassword(msgspec.Struct):
    """What is to be removed."""

    user: str
    mechanism: str


async def listing(call: Call) -> Users:
    found = await call.admin.describe_user_scram_credentials()
    # A user who was removed in between is answered with an error of their own.
    users = [
        User(name, told) for name, told in sorted(found.items()) if not isinstance(told, KafkaError)
    ]
    return Users(users[:MAX_SHOWN], len(users), list(MECHANISMS), MIN_ITERATIONS, MAX_ITERATIONS)


def check_user(user: str, mechanism: str) -> None:
    if not 0 < len(user) <= MAX_NAME_CHARS:
        raise invalid("Give a name.", "user")
    if mechanism not in MECHANISMS:
        raise invalid(f"Use one of {', '.join(MECHANISMS)}.", "mechanism")


def check_password(body: NewPassword) -> None:
    check_user(body.user, body.mechanism)
    if not 0 < len(body.password) <= _MAX_PASSWORD_CHARS:
        raise invalid("Give a password.", "password")
    if not MIN_ITERATIONS <= body.iterations <= MAX_ITERATIONS:
        raise invalid(f"From {MIN_ITERATIONS} to {MAX_ITERATIONS}.", "iterations")


async def set_password(call: Call) -> Changed:
    body: NewPassword = call.body
    check_password(body)
    credential = NewScramCredential(body.mechanism, body.iterations, body.password)
    _raise_refusal(await call.admin.alter_user_scram_credentials({body.user: [credential]}))
    return Changed(1)


def _set_commands(call: Call) -> list[str]:
    """Without the password: the command asks for it."""
    body: NewPassword = call.body
    check_password(body)
    value = f"{body.mechanism}=[iterations={body.iterations}]"
    return [ottla(call.settings, "configs", "--alter", "--user", body.user, "--add-config", value)]


async def remove_password(call: Call) -> Changed:
    body: OldPassword = call.body
    check_user(body.user, body.mechanism)
    removed = {body.user: [body.mechanism]}
    _raise_refusal(await call.admin.alter_user_scram_credentials({}, removed))
    return Changed(1)


def _remove_commands(call: Call) -> list[str]:
    body: OldPassword = call.body
    check_user(body.user, body.mechanism)
    words = ("--alter", "--user", body.user, "--delete-config", body.mechanism)
    return [ottla(call.settings, "configs", *words)]


def _raise_refusal(answered: dict[str, KafkaError | None]) -> None:
    for error in answered.values():
        if error is not None:
            raise error
    if not answered:
        raise ApiError(502, "UNAVAILABLE", "The controller did not say what became of it.")


ROUTES = [
    Route(
        "GET",
        "/users",
        needs(Operation.DESCRIBE, listing),
        "Users with a SCRAM password",
        answer=Users,
    ),
    Route(
        "POST",
        "/users",
        needs(Operation.ALTER, set_password),
        "Set a user's SCRAM password",
        answer=Changed,
        body=NewPassword,
        commands=_set_commands,
        max_body_bytes=200_000,
    ),
    Route(
        "POST",
        "/users/remove",
        needs(Operation.ALTER, remove_password),
        "Remove a user's SCRAM password",
        answer=Changed,
        body=OldPassword,
        commands=_remove_commands,
    ),
]
FEEDS: list[Feed] = []
