"""`ottla reassign`: kafka-reassign-partitions' flags, JSON and lines."""

from __future__ import annotations

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
    run_async,
)
from ottla.cli.reassign.options import DEFAULT_TIMEOUT_MS, ReassignOptions, check_usage
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.admin.client import Admin

_FILE = click.Path(path_type=Path)


@click.command("reassign", help="Move partitions between brokers and log directories.")
@bootstrap_option
@command_config_option
@flag("generate", "Propose an assignment of topics to a list of brokers.")
@flag("execute", "Start the moves of a JSON file.")
@flag("verify", "Show how far they are; once all are done, remove the throttles.")
@flag("cancel", "Stop the moves of a JSON file.")
@flag("list", "Show all moves under way.")
@click.option("--reassignment-json-file", type=_FILE, help="The moves.")
@click.option("--topics-to-move-json-file", type=_FILE, help="With --generate: the topics.")
@click.option("--broker-list", metavar="0,1,2", help="With --generate: the brokers.")
@flag("disable-rack-aware", "With --generate: do not look at racks.")
@click.option("--throttle", type=int, metavar="BYTES/S", help="Limit between brokers.")
@click.option(
    "--replica-alter-log-dirs-throttle", type=int, metavar="BYTES/S",
    help="Limit between directories of a broker.",
)  # fmt: skip
@click.option(
    "--timeout", type=int, metavar="MS",
    help=f"How long moves between directories may take to begin.  [default: {DEFAULT_TIMEOUT_MS}]",
)  # fmt: skip
@flag("additional", "With --execute: beside moves that are under way.")
@flag("preserve-throttles", "Leave the throttles as they are.")
@output_option
def command(**given: Any) -> None:
    options = ReassignOptions(**given)
    check_usage(options)
    try:
        run_async(_execute(options))
    except OttlaError as error:
        raise click.ClickException(f"Error: {describe_error(error)}") from None


async def _execute(options: ReassignOptions) -> None:
    from ottla.cli.reassign import actions as reassign_actions

    actions: dict[str, Callable[[Admin, ReassignOptions], Awaitable[None]]] = {
        "generate": reassign_actions.generate,
        "execute": reassign_actions.execute,
        "verify": reassign_actions.verify,
        "cancel": reassign_actions.cancel,
        "list": reassign_actions.list_moves,
    }
    async with connect_admin(options.bootstrap_server, options.command_config) as admin:
        await actions[options.action](admin, options)
