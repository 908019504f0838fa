"""`ottla log-dirs`: kafka-log-dirs' flags and output, and the logs that no topic owns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.java_errors import java_exception
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
from ottla.errors import ErrorCode, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.types import LogDir, StrayOnDisk

_PACKAGE = "org.apache.kafka.common.errors"


@click.command("log-dirs", help="Show the log directories of brokers and what is in them.")
@bootstrap_option
@command_config_option
@flag("describe", "Show log directories and the replicas in them, as JSON.")
@flag("strays", "Show logs that no topic owns. They are kept until a person decides.")
@click.option("--broker-list", metavar="0,1,2", help="These brokers.  [default: all]")
@click.option(
    "--topic-list", default="", metavar="TOPIC,…", help="Replicas of these topics.  [default: all]"
)
@output_option
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    describe: bool,
    strays: bool,
    broker_list: str | None,
    topic_list: str,
    output: str,
) -> None:
    if describe == strays:
        raise click.UsageError("Exactly one of --describe and --strays is needed.")
    if strays and topic_list:
        raise click.UsageError("--topic-list goes with --describe: a stray has no topic.")
    brokers = None if broker_list is None else parse_brokers(broker_list)
    topics = frozenset(name for name in topic_list.split(",") if name)
    try:
        run_async(
            _show_strays(bootstrap_server, command_config, brokers, output)
            if strays
            else _describe(bootstrap_server, command_config, brokers, topics, output)
        )
    except OttlaError as error:
        raise click.ClickException(describe_error(error)) from None


def parse_brokers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a list of broker ids such as 0,1,2", param_hint="'--broker-list'"
        ) from None


async def _describe(
    bootstrap_server: str | None,
    command_config: Path | None,
    brokers: list[int] | None,
    topics: frozenset[str],
    output: str,
) -> None:
    async with connect_admin(bootstrap_server, command_config) as admin:
        asked = await _brokers(admin, brokers)
        if output == "text":
            click.echo("Querying brokers for log directories information")
        found = {broker: await admin.describe_log_dirs(broker) for broker in sorted(set(asked))}
    if output == "text":
        names = ",".join(map(str, asked))
        click.echo(f"Received log directory information from brokers {names}")
    import json

    # Without spaces, as Kafka prints it.
    click.echo(json.dumps(as_json(found, topics), ensure_ascii=False, separators=(",", ":")))


async def _brokers(admin: Admin, wanted: list[int] | None) -> list[int]:
    """Those that were asked for, or all; raises OttlaError for one that is not there."""
    alive = [node.id for node in (await admin.describe_cluster()).nodes]
    missing = [broker for broker in wanted or [] if broker not in alive]
    if missing:
        names = ", ".join(map(str, missing))
        raise OttlaError(f"no broker {names} is alive; there are {', '.join(map(str, alive))}")
    return alive if wanted is None else wanted


def as_json(
    found: Mapping[int, Mapping[str, LogDir]], topics: Collection[str] = ()
) -> dict[str, Any]:
    """LogDirsCommand.formatAsJson."""
    return {
        "version": 1,
        "brokers": [
            {
                "broker": broker,
                "logDirs": [_dir_as_json(log_dir, topics) for log_dir in dirs.values()],
            }
            for broker, dirs in found.items()
        ],
    }


def _dir_as_json(log_dir: LogDir, topics: Collection[str]) -> dict[str, Any]:
    error = log_dir.error
    return {
        "logDir": log_dir.path,
        "error": None if error is None else f"{_PACKAGE}.{java_exception(error.code)}",
        "partitions": [
            {
                "partition": str(replica.partition),
                "size": replica.size,
                "offsetLag": replica.offset_lag,
                "isFuture": replica.is_future,
            }
            for replica in log_dir.replicas
            if not topics or replica.partition.topic in topics
        ],
    }


async def _show_strays(
    bootstrap_server: str | None,
    command_config: Path | None,
    brokers: list[int] | None,
    output: str,
) -> None:
    found: dict[int, list[StrayOnDisk]] = {}
    async with connect_admin(bootstrap_server, command_config) as admin:
        for broker in sorted(set(await _brokers(admin, brokers))):
            try:
                found[broker] = await admin.describe_strays(broker)
            except KafkaError as error:
                if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                    raise
                click.echo(f"Broker {broker} is not Ottla's and cannot be asked.", err=True)
    if output == "json":
        print_json(
            [
                {"broker": broker, **stray._asdict()}
                for broker, strays in found.items()
                for stray in strays
            ]
        )
        return
    for line in stray_lines(found):
        click.echo(line)


def stray_lines(found: Mapping[int, Sequence[StrayOnDisk]]) -> list[str]:
    if not any(found.values()):
        return ["No strays."] if found else []
    lines = [
        f"Broker: {broker}\tTopicId: {stray.topic_id or 'unknown'}\tSize: {stray.size}"
        f"\tFolder: {stray.path}"
        for broker, strays in found.items()
        for stray in strays
    ]
    return [
        *lines,
        "No topic owns these logs, and nobody asked for their end: they are kept until you decide.",
        "docs/cli.md: how to bring one back. To drop one, stop its broker and remove the folder.",
    ]
