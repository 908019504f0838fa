"""`ottla dump-log`: the files of a log made readable, as Kafka's DumpLogSegments shows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import flag, output_option, print_json

if TYPE_CHECKING:
    from ottla.storage.dump import Row


@click.command("dump-log", help="Show batches, records and index entries of a log's files.")
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)  # fmt: skip
@flag("deep", "Show the records inside the batches of .log files.")
@output_option
def command(files: tuple[Path, ...], deep: bool, output: str) -> None:
    from ottla.runtime import system_runtime
    from ottla.storage import dump

    disk = system_runtime().disk
    for path in files:
        if output == "text":
            click.echo(f"Dumping {path}")
        for row in dump.rows(disk, path, deep=deep):
            if output == "json":
                print_json({"file": str(path), **row})
            else:
                click.echo(_line(row))


def _line(row: Row) -> str:
    prefix = "| " if row["kind"] == "record" else ""
    return prefix + " ".join(
        f"{name}: {_shown(value)}" for name, value in row.items() if name != "kind"
    )


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return str(value)
