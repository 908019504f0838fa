"""`ottla reassign`: kafka-reassign-partitions' flags, JSON and lines."""

from __future__ import annotations

from dataclasses import dataclass
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
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.admin.client import Admin

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": ("reassignment_json_file",),
    "verify": ("reassignment_json_file",),
    "cancel": ("reassignment_json_file",),
    "list": (),
}
_PERMITTED = {
    "generate": ("disable_rack_aware",),
    "execute": ("additional", "throttle", "replica_alter_log_dirs_throttle", "timeout"),
    "verify": ("preserve_throttles",),
    "cancel": ("preserve_throttles", "timeout"),
    "list": (),
}
DEFAULT_TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class ReassignOptions:
    """The flags of kafka-reassign-partitions, None or false where one was not given."""

    bootstrap_server: str | None = None
    command_config: Path | None = None
    output: str = "text"
    generate: bool = False
    execute: bool = False
    verify: bool = False
    cancel: bool = False
    list: bool = False
    reassignment_json_file: Path | None = None
    topics_to_move_json_file: Path | None = None
    broker_list: str | None = None
    disable_rack_aware: bool = False
    throttle: int | None = None
    replica_alter_log_dirs_throttle: int | None = None
    timeout: int | None = None  # of moves between directories
    additional: bool = False
    preserve_throttles: bool = False

    @property
    def action(self) -> str:
        return next(name for name in ACTIONS if getattr(self, name))

    @property
    def timeout_ms(self) -> int:
        return DEFAULT_TIMEOUT_MS if self.timeout is None else self.timeout

    @property
    def is_json(self) -> bool:
        return self.output == "json"


def check_usage(options: ReassignOptions) -> None:
    """validateAndParseArgs: raises click.UsageError with Kafka's texts."""
    given = [name for name in ACTIONS if getattr(options, name)]
    if len(given) != 1:
        shown = ", ".join(f"--{name}" for name in ACTIONS)
        raise click.UsageError(f"Command must include exactly one action: {shown}")
    action = given[0]
    for name in _REQUIRED[action]:
        if getattr(options, name) is None:
            raise click.UsageError(f'Missing required argument "[{name.replace("_", "-")}]"')
    everything = {
        name for group in (_REQUIRED, _PERMITTED) for names in group.values() for name in names
    }
    for name in sorted(everything - {*_REQUIRED[action], *_PERMITTED[action]}):
        if getattr(options, name) not in (None, False):
            raise click.UsageError(
                f'Option "[{name.replace("_", "-")}]" can\'t be used with action "[{action}]"'
            )


_FILE = click.Path(path_type=Path)


@click.command("reassign", help="Move partitions between brokers and log directories.")
@bootstrap_option
@command_config_option
@flag("generate", "Propose an assignment of topics to a list of brokers.")
@flag("execute", "Start the moves of a JSON file.")
@flag("verify", "Tell how far they are; when all is done, take the throttles away.")
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
