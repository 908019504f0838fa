"""`ottla dump-log`: the files of a log made readable, with flags and lines of DumpLogSegments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import flag, output_option, print_json
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.storage.dump import Row

_DATA = ("key", "payload")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _listed(context: click.Context, option: click.Parameter, given: str | None) -> list[Path]:
    names = [] if given is None else [name.strip() for name in given.split(",")]
    return [Path(_FILE.convert(name, option, context)) for name in names]


@click.command("dump-log", help="Show batches, records and index entries of a log's files.")
@click.argument("files", nargs=-1, metavar="FILE...", type=_FILE)
@click.option(
    "--files",
    "listed",
    callback=_listed,
    metavar="FILE,…",
    help="The files, as Kafka's tool takes them.",
)
@click.option(
    "--deep", "--print-data-log", "deep", is_flag=True,
    help="Show the records inside the batches of .log files.",
)  # fmt: skip
@flag("deep-iteration", "The same, without keys and values.")
@flag("offsets-decoder", "Show records of __consumer_offsets in words.")
@flag("transaction-log-decoder", "Show records of __transaction_state in words.")
@output_option
def command(
    files: tuple[Path, ...],
    listed: list[Path],
    deep: bool,
    deep_iteration: bool,
    offsets_decoder: bool,
    transaction_log_decoder: bool,
    output: str,
) -> None:
    from ottla.cli.data import dump_decoders
    from ottla.coordinator.versioned import RecordFormatError
    from ottla.runtime import system_runtime
    from ottla.storage import dump

    if offsets_decoder and transaction_log_decoder:
        raise click.UsageError(
            "--offsets-decoder and --transaction-log-decoder are for different topics"
        )
    decode: dump.Decode = dump.texts
    if offsets_decoder or transaction_log_decoder:
        deep = True
        decode = dump_decoders.offsets if offsets_decoder else dump_decoders.transactions
    paths = [*files, *listed]
    if not paths:
        raise click.UsageError("Name at least one file, such as 00000000000000000000.log.")
    disk = system_runtime().disk
    for path in paths:
        if output == "text":
            click.echo(f"Dumping {path}")
            if path.suffix == ".log" and path.stem.isdecimal():
                click.echo(f"Starting offset: {int(path.stem)}")
        try:
            for row in dump.rows(disk, path, deep=deep or deep_iteration, decode=decode):
                _print(path, row, with_data=deep, as_json=output == "json")
        except RecordFormatError as error:
            raise OttlaError(f"{path}: {error}") from None


def _print(path: Path, row: Row, *, with_data: bool, as_json: bool) -> None:
    shown = {name: value for name, value in row.items() if with_data or name not in _DATA}
    if as_json:
        print_json({"file": str(path), **shown})
    else:
        click.echo(_line(shown))


def _line(row: Row) -> str:
    prefix = "| " if row["kind"] == "record" else ""
    return prefix + " ".join(
        f"{name}: {_shown(name, value)}"
        for name, value in row.items()
        # A key or value that is not there has no place in the line.
        if name != "kind" and not (name in _DATA and value is None)
    )


def _shown(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    return "null" if name == "crc" and value is None else str(value)
