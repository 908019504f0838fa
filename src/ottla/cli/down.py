"""`ottla down`: the orderly stop of a cluster that `ottla up` started on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.options import data_option


@click.command(
    "down", help="Stop a cluster that `ottla up` started, with brokers started again by hand."
)
@data_option
def command(data: Path) -> None:
    from ottla.process import running

    cluster = running.look(data)
    if cluster is None:
        click.echo(f"nothing runs with the folder {data.absolute()}")
        return
    running.stop(data, cluster, click.echo)
    click.echo("stopped")
