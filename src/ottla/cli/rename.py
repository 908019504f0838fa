"""`ottla rename OLD NEW`: a topic gets another name (ADR 51)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import (
    bootstrap_option,
    connect_admin,
    describe_error,
    flag,
    output_option,
    print_json,
    run_async,
)
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.types import format_topic_id

if TYPE_CHECKING:
    from ottla.client.admin.renames import RenamedTopic

_GROUPS_SHOWN = 10


class RenameRefused(OttlaError):
    """What the cluster, or the lack of one of Ottla's, has against it."""


@click.command("rename", help="Give a topic another name, with its records and groups.")
@click.argument("topic", metavar="OLD")
@click.argument("name", metavar="NEW")
@bootstrap_option
@click.option(
    "--command-config", "command_config", type=click.Path(path_type=Path),
    metavar="FILE", help="A property file with settings of the admin client.",
)  # fmt: skip
@flag("dry-run", "Only say whether the topic could be renamed now.")
@output_option
def command(
    topic: str,
    name: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    dry_run: bool,
    output: str,
) -> None:
    async def run() -> None:
        _show(
            await _rename(topic, name, bootstrap_server, command_config, dry_run), dry_run, output
        )

    try:
        run_async(run())
    except OttlaError as error:
        raise click.ClickException(describe_error(error)) from None


def _show(renamed: RenamedTopic, dry_run: bool, output: str) -> None:
    if output == "json":
        print_json(
            {
                "topic": renamed.topic,
                "name": renamed.name,
                "topic_id": format_topic_id(renamed.topic_id),
                "dry_run": dry_run,
                "groups": renamed.groups,
                "offsets": renamed.offsets,
                "group_ids": renamed.group_ids,
                "acls": renamed.acls,
            }
        )
    else:
        for line in lines_of(renamed, dry_run=dry_run):
            click.echo(line)


async def _rename(
    topic: str,
    name: str,
    bootstrap_server: str | None,
    command_config: Path | None,
    dry_run: bool,
) -> RenamedTopic:
    async with connect_admin(bootstrap_server, command_config) as admin:
        try:
            renamed = await admin.rename_topic(topic, name, validate_only=dry_run)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RenameRefused(f"There is no topic {topic}.") from None
            raise
    if renamed is None:
        raise RenameRefused(
            "The controller of this cluster is not Ottla's: Apache Kafka cannot rename a topic."
            " Copy it to the new name instead."
        )
    return renamed


def lines_of(renamed: RenamedTopic, *, dry_run: bool) -> list[str]:
    old, new = renamed.topic, renamed.name
    if dry_run:
        return [f"Topic {old} can be renamed to {new}."]
    lines = [f"Topic {old} is called {new} now."]
    if renamed.offsets:
        shown = ", ".join(renamed.group_ids[:_GROUPS_SHOWN])
        more = ", ..." if renamed.groups > _GROUPS_SHOWN else ""
        noun = "group" if renamed.groups == 1 else "groups"
        lines.append(
            f"Offsets of {renamed.groups} {noun} came along ({renamed.offsets} partitions):"
            f" {shown}{more}"
        )
    lines.append(f"Whoever uses {old} gets UNKNOWN_TOPIC_OR_PARTITION: point it at {new}.")
    if renamed.acls:
        lines.append(
            f"These ACLs are for {old} and do not hold for {new}; add them for {new} and remove"
            " the old ones (ottla acls):"
        )
        lines += [f"  {acl}" for acl in renamed.acls]
    return lines
