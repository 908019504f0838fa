"""`ottla undelete`: brings a deleted topic back from the trash."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    output_option,
    print_json,
    run_async,
)
from ottla.cli.trash_ids import id_option, read_id
from ottla.types import format_topic_id


@click.command("undelete", help="Bring a deleted topic back, with its records, configs and id.")
@bootstrap_option
@command_config_option
@click.argument("topic")
@click.option("--as", "new_name", metavar="NAME", help="Another name, where its own is taken.")
@id_option
@output_option
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str,
    new_name: str | None,
    topic_id: str | None,
    output: str,
) -> None:
    run_async(_undelete(bootstrap_server, command_config, topic, new_name, topic_id, output))


async def _undelete(
    bootstrap_server: str | None,
    command_config: Path | None,
    topic: str,
    new_name: str | None,
    topic_id: str | None,
    output: str,
) -> None:
    wanted = read_id(topic_id)
    async with connect_admin(bootstrap_server, command_config) as admin:
        found = await admin.undelete_topic(topic, topic_id=wanted, new_name=new_name)
    name = topic if new_name is None else new_name
    if output == "json":
        print_json({"topic": name, "topic_id": format_topic_id(found)})
    else:
        click.echo(f"Topic {name} is back (id {format_topic_id(found)}).")
