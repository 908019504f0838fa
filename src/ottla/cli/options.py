"""What several commands share: options, and the way to run a short piece of async work."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import click


def run_async(work: Coroutine[Any, Any, None]) -> None:
    """asyncio.run for a client: Ctrl-C at any moment ends without a word of asyncio's own."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_exception_handler(_report_unless_cancelled)
        runner.run(work)


def _report_unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A cancelled connection attempt may have a callback due that then finds its future done.
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


def parse_settings(
    _ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """`--set key=value`, as often as wanted; the value may be empty and may hold '='."""
    settings = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{item!r} is not key=value")
        settings[key.strip()] = value.strip()
    return settings


settings_option = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    callback=parse_settings,
    help="A broker config; may be given often and wins over everything else.",
)
