"""`ottla bench`: how fast the codec, the log store, a start, topics, records and Spark are here,
and how long others wait while somebody attacks."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from ottla.errors import OttlaError

SUBJECTS = ("codec", "store", "start", "topics", "data", "spark", "attacks")
# What each subject takes beside --output.
OPTIONS = {
    "store": {"only"},
    "topics": {"only"},
    "data": {"only", "scale", "plot"},
    "spark": {"only", "scale"},
    "attacks": {"only"},
}


@click.command(
    "bench", help="Measure parts of Ottla beside their peers: a table of rows with goals."
)
@click.argument("subject", type=click.Choice(SUBJECTS))
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option(
    "--only",
    multiple=True,
    metavar="ROW",
    help="store, topics, data, spark, attacks: only these rows, by name.",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True, max=10),
    help="data, spark: 0.1 does a tenth of the work; goals are meant for 1.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="data: also draw the table into this file (SVG).",
)
@click.pass_context
def command(
    ctx: click.Context,
    subject: str,
    output: str,
    only: tuple[str, ...],
    scale: float | None,
    plot: Path | None,
) -> None:
    options: dict[str, Any] = {"only": only, "scale": scale, "plot": plot}
    options = {name: value for name, value in options.items() if value}
    for name in options.keys() - OPTIONS.get(subject, set()):
        takers = " and ".join(f"`ottla bench {key}`" for key in OPTIONS if name in OPTIONS[key])
        raise click.UsageError(f"--{name} is for {takers}")
    # Benchmarks import much that no other command needs, peers among it.
    try:
        main = importlib.import_module(f"ottla.bench.{subject}").main
        missed_goals = main(output=output, **options)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"this needs {error.name}, which is not installed; `make setup` installs it"
        ) from None
    except OttlaError as error:
        raise click.ClickException(str(error)) from None
    ctx.exit(missed_goals or 0)
