"""`ottla up`: a whole cluster on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.options import data_option, flag, properties_option, settings_option

_PORT = click.IntRange(1, 65535)
_MAX_BROKERS = 32


def _metrics_port(_ctx: click.Context, _param: click.Parameter, value: str) -> int | None:
    if value == "off":
        return None
    if not (value.isascii() and value.isdigit() and 0 < int(value) < 65536):
        raise click.BadParameter(f"{value!r} is neither a port nor off")
    return int(value)


def _racks(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    racks = tuple(part.strip() for part in (value or "").split(",")) if value else ()
    if not all(racks):
        raise click.BadParameter(f"{value!r} has a rack without a name")
    return racks


@click.command("up", help="Start a cluster on this machine and run it until Ctrl-C.")
@click.option(
    "--brokers", type=click.IntRange(1, _MAX_BROKERS), default=1, show_default=True,
    help="Number of brokers, each a process of its own.",
)  # fmt: skip
@click.option(
    "--port", type=_PORT, default=9092, show_default=True,
    help="Port of the first broker; the others follow.",
)  # fmt: skip
@click.option("--zookeeper-port", type=_PORT, help="Port of the metadata store.  [default: 2181]")
@click.option(
    "--zookeeper", metavar="HOST:PORT/CHROOT",
    help="Use this ZooKeeper instead of starting a store.",
)  # fmt: skip
@data_option
@click.option(
    "--metrics", metavar="PORT|off", default="off", show_default=True, callback=_metrics_port,
    help="Serve GET /metrics for Prometheus: the first broker on PORT, the others on the next.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Address to listen on, of brokers and store; 0.0.0.0 is all of this machine's.",
)  # fmt: skip
@click.option(
    "--advertise", metavar="HOST",
    help="Name or address by which clients reach this machine.  [default: --host]",
)  # fmt: skip
@click.option(
    "--racks", metavar="NAME,…", callback=_racks,
    help="Racks of the brokers in turn: `east,west` puts every second broker into west.",
)  # fmt: skip
@click.option(
    "--console", type=_PORT, metavar="PORT",
    help="Serve the web console on this port (needs ottla[console]).",
)  # fmt: skip
@flag("detach", "Return when the cluster is ready; `ottla down` stops it.")
@flag("restart", "Start brokers, and the store, again when they die.")
@properties_option
@settings_option
@click.pass_context
def command(
    ctx: click.Context,
    brokers: int,
    port: int,
    zookeeper_port: int | None,
    zookeeper: str | None,
    data: Path,
    metrics: int | None,
    host: str,
    advertise: str | None,
    racks: tuple[str, ...],
    console: int | None,
    detach: bool,
    restart: bool,
    overrides: dict[str, str],
) -> None:
    from ottla.process import supervisor
    from ottla.process.up_options import UpOptions, is_every_address

    if is_every_address(host) and advertise is None:
        raise click.UsageError(
            f"--host {host} listens everywhere: name with --advertise the host that clients use"
        )
    if advertise is not None and is_every_address(advertise):
        raise click.UsageError(f"--advertise {advertise} leads clients nowhere: name this machine")
    if zookeeper is not None and zookeeper_port is not None:
        raise click.UsageError("--zookeeper and --zookeeper-port cannot be used together")
    last_port = port + brokers - 1
    if last_port > 65535:
        raise click.UsageError(f"--port {port} leaves no room for {brokers} brokers")
    store_port = zookeeper_port or 2181
    if zookeeper is None and port <= store_port <= last_port:
        raise click.UsageError(f"port {store_port} is wanted by a broker and by the store")
    if metrics is not None:
        taken = {*range(port, last_port + 1), *([store_port] if zookeeper is None else [])}
        if metrics + brokers - 1 > 65535 or not taken.isdisjoint(range(metrics, metrics + brokers)):
            raise click.UsageError(f"--metrics {metrics} leaves no room for {brokers} brokers")
    if console is not None:
        from ottla.cli.console import check_installed

        check_installed()
    options = UpOptions(
        brokers=brokers,
        port=port,
        zookeeper_port=store_port,
        zookeeper=zookeeper,
        data=data,
        overrides=overrides,
        metrics_port=metrics,
        host=host,
        advertise=advertise,
        detach=detach,
        restart=restart,
        racks=racks,
        console_port=console,
    )
    ctx.exit(supervisor.run(options))
