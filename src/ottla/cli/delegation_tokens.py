"""`ottla delegation-tokens`: kafka-delegation-tokens' flags and lines (DelegationTokenCommand)."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    describe_error,
    flag,
    output_option,
    print_json,
    run_async,
)
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.tokens import TokenAndSecret

_COLUMNS = "{:<15} {:<30} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEADINGS = ("TOKENID", "HMAC", "OWNER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
# Which flags go with which action; the first ones it must have.
_NEEDED = {
    "create": ("max_life_time_period",),
    "renew": ("hmac", "renew_time_period"),
    "expire": ("hmac", "expiry_time_period"),
    "describe": (),
}
_POSSIBLE = {"create": ("renewer_principal",), "describe": ("owner_principal",)}
_ALL = (
    "hmac", "max_life_time_period", "renew_time_period", "expiry_time_period",
    "renewer_principal", "owner_principal",
)  # fmt: skip


@dataclass(frozen=True)
class TokenOptions:
    """What was asked for; see the command's help."""

    bootstrap_server: str
    command_config: Path | None
    create: bool
    renew: bool
    expire: bool
    describe: bool
    hmac: str | None
    max_life_time_period: int | None
    renew_time_period: int | None
    expiry_time_period: int | None
    renewer_principal: Sequence[str]
    owner_principal: Sequence[str]
    output: str

    @property
    def action(self) -> str:
        asked = [action for action in _NEEDED if getattr(self, action)]
        if len(asked) != 1:
            raise click.UsageError(
                "Command must include exactly one action: --create, --renew, --expire or --describe"
            )
        return asked[0]

    @property
    def is_json(self) -> bool:
        return self.output == "json"


def _period(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", type=int, metavar="MS", help=text)


@click.command("delegation-tokens", help="Create, renew, expire and describe delegation tokens.")
@bootstrap_option
@command_config_option
@flag("create", "A new token for the user who asks.")
@flag("renew", "Let a token live on.")
@flag("expire", "End a token.")
@flag("describe", "Show tokens, with their secrets.")
@click.option(
    "--hmac", metavar="BASE64", help="The token's secret; - reads it from standard input, where "
    "no list of processes shows it.",
)  # fmt: skip
@_period("max-life-time-period", "With --create: its longest life; -1: the brokers' own.")
@_period("renew-time-period", "With --renew: from now on; -1: the brokers' own.")
@_period("expiry-time-period", "With --expire: from now on; -1: at once.")
@click.option(
    "--renewer-principal", multiple=True, metavar="TYPE:NAME",
    help="With --create: who may renew it, too. May be given more than once.",
)  # fmt: skip
@click.option(
    "--owner-principal", multiple=True, metavar="TYPE:NAME",
    help="With --describe: only tokens that one of these owns or may renew.",
)  # fmt: skip
@output_option
def command(**given: Any) -> None:
    options = TokenOptions(**given)
    action = options.action
    _check_flags(options, action)
    actions: dict[str, Callable[[Admin, TokenOptions], Awaitable[None]]] = {
        "create": _create,
        "renew": _renew,
        "expire": _expire,
        "describe": _describe,
    }

    async def work() -> None:
        async with connect_admin(options.bootstrap_server, options.command_config) as admin:
            await actions[action](admin, options)

    try:
        run_async(work())
    except OttlaError as error:
        reason = describe_error(error)
        raise click.ClickException(
            f"Error while executing delegation token command : {reason}"
        ) from None


def _check_flags(options: TokenOptions, action: str) -> None:
    for name in _NEEDED[action]:
        if getattr(options, name) is None:
            raise click.UsageError(f'Missing required argument "[{name.replace("_", "-")}]"')
    for name in _ALL:
        known = name in _NEEDED[action] or name in _POSSIBLE.get(action, ())
        if not known and getattr(options, name) not in (None, ()):
            raise click.UsageError(
                f'Option "[{action}]" can\'t be used with option "[{name.replace("_", "-")}]"'
            )


async def _create(admin: Admin, options: TokenOptions) -> None:
    renewers, lifetime_ms = _principals(options.renewer_principal), options.max_life_time_period
    assert lifetime_ms is not None, "it was asked for"
    _say(
        options,
        f"Calling create token operation with renewers :[{_joined(renewers)}] , "
        f"max-life-time-period :{lifetime_ms}",
    )
    made = await admin.create_token(renewers, lifetime_ms)
    _say(options, f"Created delegation token with tokenId : {made.token.token_id}")
    _print_tokens(options, [made])


async def _renew(admin: Admin, options: TokenOptions) -> None:
    period_ms = options.renew_time_period or 0
    secret = _secret(options.hmac or "")
    _say(options, f"Calling renew token operation with renew-time-period :{period_ms}")
    _print_end(options, "renew", await admin.renew_token(secret, period_ms))


async def _expire(admin: Admin, options: TokenOptions) -> None:
    period_ms = options.expiry_time_period or 0
    secret = _secret(options.hmac or "")
    _say(options, f"Calling expire token operation with expire-time-period : {period_ms}")
    _print_end(options, "expire", await admin.expire_token(secret, period_ms))


async def _describe(admin: Admin, options: TokenOptions) -> None:
    owners = _principals(options.owner_principal)
    whose = f"owners :[{_joined(owners)}]" if owners else "current user."
    _say(options, f"Calling describe token operation for {whose}")
    found = await admin.describe_tokens(owners or None)
    _say(options, f"Total number of tokens : {len(found)}")
    _print_tokens(options, found)


def _principals(given: Sequence[str]) -> list[tuple[str, str]]:
    found = []
    for text in given:
        kind, colon, name = text.strip().partition(":")
        if not (kind and colon and name):
            raise click.UsageError(
                f"expected a string in format principalType:principalName but got {text.strip()}"
            )
        found.append((kind, name))
    return found


def _joined(principals: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{kind}:{name}" for kind, name in principals)


def _secret(given: str) -> bytes:
    text = sys.stdin.readline() if given == "-" else given
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        raise click.UsageError("--hmac is not base64") from None


def _say(options: TokenOptions, line: str) -> None:
    if not options.is_json:
        click.echo(line)


def _print_end(options: TokenOptions, action: str, expiry_ms: int) -> None:
    if options.is_json:
        print_json({"expiry_ms": expiry_ms})
    else:
        click.echo(f"Completed {action} operation. New expiry date : {_date(expiry_ms)}")


def _print_tokens(options: TokenOptions, found: Sequence[TokenAndSecret]) -> None:
    if options.is_json:
        print_json([{**each.token._asdict(), "hmac": each.password} for each in found])
        return
    click.echo("\n" + _COLUMNS.format(*_HEADINGS))
    for each in found:
        token = each.token
        renewers = f"[{', '.join(token.renewers)}]"
        dates = map(_date, (token.issued_ms, token.expiry_ms, token.max_ms))
        click.echo(_COLUMNS.format(token.token_id, each.password, token.owner, renewers, *dates))


def _date(ts_ms: int) -> str:
    """In the zone of this machine, as Java's tool shows it."""
    try:
        return f"{datetime.fromtimestamp(ts_ms / 1000):%Y-%m-%dT%H:%M}"
    except (ValueError, OverflowError, OSError):
        return str(ts_ms)
