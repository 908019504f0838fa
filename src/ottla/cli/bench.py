"""`ottla bench`: how fast the codec, the log store, a start and topics are on this machine."""

from __future__ import annotations

import importlib

import click

SUBJECTS = ("codec", "store", "start", "topics")


@click.command("bench", help="Measure the codec, the log store, a start or topics on this machine.")
@click.argument("subject", type=click.Choice(SUBJECTS))
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.pass_context
def command(ctx: click.Context, subject: str, output: str) -> None:
    # Benchmarks import much that no other command needs, peers among it.
    try:
        main = importlib.import_module(f"ottla.bench.{subject}").main
        missed_goals = main(output=output)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"this needs {error.name}, which is not installed; `make setup` installs it"
        ) from None
    ctx.exit(missed_goals or 0)
