"""`ottla status`: what runs of a cluster that `ottla up` started on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import data_option, output_option, print_json

if TYPE_CHECKING:
    from ottla.process.running import Process


@click.command(
    "status",
    help="Show what runs of a cluster that `ottla up` started. Exit code 0: all of it.",
)
@data_option
@output_option
@click.pass_context
def command(ctx: click.Context, data: Path, output: str) -> None:
    from ottla.process import running

    cluster = running.look(data)
    if cluster is None:
        if output == "json":
            print_json({"data": str(data.absolute()), "supervisor": None, "processes": []})
        else:
            click.echo(f"nothing runs with the folder {data.absolute()}")
        ctx.exit(1)
    answering = {p.name: p.runs and running.answers(p.address) for p in cluster.processes}
    if output == "json":
        print_json(
            {
                "data": str(data.absolute()),
                "supervisor": cluster.supervisor,
                "processes": [
                    {
                        "name": process.name,
                        "pid": process.pid,
                        "address": process.address,
                        "answers": answering[process.name],
                    }
                    for process in cluster.processes
                ],
                "bootstrap.servers": cluster.bootstrap_servers,
                "zookeeper": cluster.zookeeper,
            }
        )
    else:
        click.echo(f"data folder: {data.absolute()}")
        click.echo(f"ottla up: {_who(cluster.supervisor)}")
        for process in cluster.processes:
            click.echo(line(process, answers=answering[process.name]))
        if cluster.processes:
            click.echo(
                f"bootstrap.servers={cluster.bootstrap_servers} zookeeper={cluster.zookeeper}"
            )
    is_whole = cluster.supervisor is not None and bool(answering) and all(answering.values())
    ctx.exit(0 if is_whole else 1)


def line(process: Process, *, answers: bool) -> str:
    text = f"{process.name}: {_who(process.pid)}"
    if process.runs:
        text += f", {process.address}" + ("" if answers else " does not answer")
    return text


def _who(pid: int | None) -> str:
    if pid is None:
        return "not running"
    return f"pid {pid}" if pid else "runs in another container"
