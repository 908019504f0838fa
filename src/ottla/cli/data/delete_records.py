"""`ottla delete-records`: kafka-delete-records' file and lines (DeleteRecordsCommand)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ottla.cli.options import (
    bootstrap_option,
    command_config_option,
    connect_admin,
    output_option,
    print_json,
    read_text_file,
    run_async,
)
from ottla.errors import KafkaError, OttlaError
from ottla.types import TopicPartition

_VERSION = 1
_SOME_FAILED = 1
_BITS = {"partition": 31, "offset": 63}


class BadOffsets(OttlaError):
    """A file that does not say which records to delete, with Kafka's text where it has one."""


@click.command("delete-records", help="Delete the records before given offsets, for good.")
@bootstrap_option
@command_config_option
@click.option(
    "--offset-json-file", required=True, type=click.Path(path_type=Path), metavar="FILE",
    help='{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 42}]}: 42 is the '
    "first record that stays; -1 deletes all that every in-sync replica has.",
)  # fmt: skip
@output_option
@click.pass_context
def command(
    context: click.Context,
    bootstrap_server: str | None,
    command_config: Path | None,
    offset_json_file: Path,
    output: str,
) -> None:
    offsets = parse_offsets(read_text_file(offset_json_file))

    async def work() -> None:
        async with connect_admin(bootstrap_server, command_config) as admin:
            if output == "text":
                click.echo("Executing records delete operation")
            results = await admin.delete_records(offsets)
        if output == "json":
            print_json([_value(tp, result) for tp, result in results.items()])
        else:
            click.echo("Records delete operation completed:")
            for tp, result in results.items():
                click.echo(_line(tp, result))
        if any(isinstance(result, KafkaError) for result in results.values()):
            context.exit(_SOME_FAILED)

    run_async(work())


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise BadOffsets("The input string is not a valid JSON") from None
    if not isinstance(value, dict):
        raise BadOffsets("Expected a JSON object with partitions")
    version = value.get("version", _VERSION)
    if version != _VERSION or isinstance(version, bool):
        raise BadOffsets(f"Not supported version field value {json.dumps(version)}")
    if "partitions" not in value:
        raise BadOffsets("Missing partitions field")
    entries = value["partitions"]
    if not isinstance(entries, list):
        raise BadOffsets("partitions is not a list")
    found: dict[TopicPartition, int] = {}
    repeated = []
    for entry in entries:
        tp = TopicPartition(_field(entry, "topic", str), _field(entry, "partition", int))
        if tp in found:
            repeated.append(str(tp))
        found[tp] = _field(entry, "offset", int)
    if repeated:
        raise BadOffsets(
            "Offset json file contains duplicate topic partitions: "
            + ",".join(dict.fromkeys(repeated))
        )
    return found


def _field(entry: Any, name: str, kind: type) -> Any:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "text" if kind is str else "a whole number"
        raise BadOffsets(f'"{name}" of {json.dumps(entry)} is not {expected}')
    bits = _BITS.get(name, 0)
    if isinstance(value, int) and not -(1 << bits) <= value < 1 << bits:
        raise BadOffsets(f'"{name}" of {json.dumps(entry)} is out of range')
    return value


def _line(tp: TopicPartition, result: int | KafkaError) -> str:
    if isinstance(result, KafkaError):
        return f"partition: {tp}\terror: {result}"
    return f"partition: {tp}\tlow_watermark: {result}"


def _value(tp: TopicPartition, result: int | KafkaError) -> dict[str, Any]:
    outcome = (
        {"error": str(result)} if isinstance(result, KafkaError) else {"low_watermark": result}
    )
    return {"topic": tp.topic, "partition": tp.partition} | outcome
