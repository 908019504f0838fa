"""`ottla bench`: how fast the codec and the log store are on this machine."""

from __future__ import annotations

import importlib

import click


@click.command("bench", help="Measure the codec or the log store on this machine.")
@click.argument("subject", type=click.Choice(["codec", "store"]))
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(subject: str, output: str) -> None:
    # Benchmarks import much that no other command needs.
    importlib.import_module(f"ottla.bench.{subject}").main(output=output)
