"""`ottla purge`: removes a deleted topic from the trash, for good."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    flag,
    interruptible,
    output_option,
    print_json,
    run_async,
)
from ottla.cli.trash_ids import id_option, read_id
from ottla.errors import OttlaError
from ottla.types import format_topic_id


class NotPurged(OttlaError):
    """Somebody thought better of it."""


@click.command("purge", help="Remove a deleted topic from the trash, for good.")
@bootstrap_option
@command_config_option
@click.argument("topic")
@id_option
@flag("yes", "Do not ask on a terminal.")
@output_option
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str,
    topic_id: str | None,
    yes: bool,
    output: str,
) -> None:
    wanted = read_id(topic_id)
    if not yes and sys.stdin.isatty() and sys.stderr.isatty():
        with interruptible():
            is_wanted = click.confirm(f"Remove topic {topic} for good?", err=True)
        if not is_wanted:
            raise NotPurged("nothing was removed; --yes does not ask")
    run_async(_purge(bootstrap_server, command_config, topic, wanted, output))


async def _purge(
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str,
    topic_id: bytes | None,
    output: str,
) -> None:
    async with connect_admin(bootstrap_server, command_config) as admin:
        found = await admin.purge_topic(topic, topic_id=topic_id)
    if output == "json":
        print_json({"topic": topic, "topic_id": format_topic_id(found)})
    else:
        click.echo(f"Purged topic {topic} (id {format_topic_id(found)}).")
