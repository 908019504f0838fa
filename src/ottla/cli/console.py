"""`ottla console`: a web console for any cluster, Apache Kafka included."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    command_config_option,
    flag,
    run_until_interrupted,
)

if TYPE_CHECKING:
    from ottla.console.settings import ConsoleSettings


@click.command("console", help="Serve a web console for a cluster until Ctrl-C.")
@bootstrap_option
@command_config_option
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True,
    help="Port to listen on; 0 takes a free one.",
)  # fmt: skip
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
    help="Address to listen on. Whoever reaches it has the rights of the console's users.",
)  # fmt: skip
@click.option(
    "--allow-host", "names", multiple=True, metavar="NAME",
    help="A name by which browsers may ask, beside localhost and addresses.",
)  # fmt: skip
@flag("read-only", "Show everything, change nothing.")
@click.option("--zookeeper", metavar="HOST:PORT/CHROOT", help="The store, for the page of znodes.")
@click.option(
    "--zk-credentials", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE", help="A file with user:password, for a store that is not open.",
)  # fmt: skip
@click.option(
    "--pipeline", "pipelines", multiple=True, metavar="HOST:PORT",
    help="Where a running pipeline serves its metrics; may be given more than once.",
)  # fmt: skip
def command(
    bootstrap_server: str | None,
    command_config: Path | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    read_only: bool,
    zookeeper: str | None,
    zk_credentials: Path | None,
    pipelines: tuple[str, ...],
) -> None:
    from ottla.config.definitions import parse_properties
    from ottla.console.settings import ConsoleSettings

    properties: Mapping[str, str] = {}
    if command_config is not None:
        properties = parse_properties(command_config.read_text(encoding="latin-1"))
    settings = ConsoleSettings(
        bootstrap=bootstrap_server or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP,
        host=host,
        port=port,
        read_only=read_only,
        names=names,
        properties=without_credentials(properties),
        zookeeper=zookeeper,
        zookeeper_credentials=zk_credentials,
        pipelines=pipelines,
    )
    if not (settings.is_local or settings.needs_login or settings.read_only):
        click.echo(
            f"Warning: whoever reaches {host} can change this cluster, which asks nobody who is "
            "there: --read-only prevents it.",
            err=True,
        )
    run_until_interrupted(_serve(settings))


def without_credentials(properties: Mapping[str, str]) -> dict[str, str]:
    """People log in themselves: nobody acts by the password that lies in a file."""
    return {
        name: value for name, value in properties.items() if not name.endswith("sasl.jaas.config")
    }


def check_installed() -> None:
    """Raises ClickException with what to do; nothing is imported."""
    from importlib.util import find_spec

    missing = [name for name in ("msgspec", "starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise click.ClickException(
            f"the console needs {', '.join(missing)}: pip install 'ottla[console]'"
        )


async def _serve(settings: ConsoleSettings) -> None:
    import asyncio
    import signal

    from ottla.runtime import system_runtime

    check_installed()
    from ottla.console.server import listen, serve, url

    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    listener = listen(settings)
    address = url(settings, listener)
    await serve(
        settings, system_runtime(), listener, stop, lambda: click.echo(f"console: {address}")
    )
