"""`ottla broker`: one broker of a cluster on many machines."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.options import settings_option


@click.command("broker", help="Run one broker from a server.properties file.")
@click.option(
    "--config",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="A server.properties file with Kafka's names.",
)
@click.option(
    "--logs",
    "logs_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Log to files in this folder, which are rotated; only warnings go to stderr then too.",
)
@settings_option
def command(path: Path, logs_folder: Path | None, overrides: dict[str, str]) -> None:
    import asyncio
    import logging
    import os
    import sys

    import uvloop

    from ottla.config.broker import BrokerConfig

    config = BrokerConfig.from_file(path, overrides)
    for warning in config.warnings:
        click.echo(f"warning: {warning}", err=True)
    from ottla.process.data_folder import pid_path_beside, remove_pid, write_pid
    from ottla.process.logs import configure_logging
    from ottla.process.node import Node, run_broker
    from ottla.process.tuning import collect_rarely, raise_file_limit, schedule_as_told
    from ottla.runtime import system_runtime

    collect_rarely()
    raise_file_limit()
    configure_logging(
        logs_folder,
        f"broker-{config.broker_id}",
        stderr_level=logging.INFO if logs_folder is None else logging.WARNING,
    )

    def ready(node: Node) -> None:
        schedule_as_told(config)
        # Not before: until the folders are locked the file may be another one's.
        if pid_file is not None:
            write_pid(pid_file, os.getpid())
        host = config.advertised_listeners[0].host
        click.echo(
            f"ready: bootstrap.servers={host}:{node.port} zookeeper={config.zookeeper_connect}"
        )
        sys.stdout.flush()

    pid_file = pid_path_beside(path, config.broker_id)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run_broker(config, system_runtime(), ready))
    finally:
        if pid_file is not None:
            remove_pid(pid_file, os.getpid())
