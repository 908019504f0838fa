"""`ottla clone`: a topic copied into a new one, on the same cluster or another."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.data.copies import MAX_PARTITIONS, Given, copy_options, endpoint, run_clone
from ottla.cli.data.since import parse_since
from ottla.cli.options import flag


@click.command("clone", help="Copy TOPIC into a new topic NEW: records, configs, group positions.")
@click.argument("topic")
@click.argument("new")
@click.option(
    "--partitions",
    type=click.IntRange(1, MAX_PARTITIONS),
    help="Of NEW.  [default: those of TOPIC]",
)
@flag("with-groups", "Carry the positions of consumer groups over.")
@click.option("--from", "since", metavar="TIME", help="Only records from this time on.")
@click.option("--to", "until", metavar="TIME", help="Only records before this time.")
@click.option(
    "--target-bootstrap-server", metavar="HOST:PORT,…", help="Another cluster to clone to."
)
@click.option(
    "--target-command-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="As --command-config, for the other cluster.",
)
@flag("no-check", "Do not read NEW back to check the order of its records.")
@copy_options("clones")
@click.pass_context
def command(
    ctx: click.Context,
    topic: str,
    new: str,
    given: Given,
    target_bootstrap_server: str | None,
    target_command_config: Path | None,
    partitions: int | None,
    since: str | None,
    until: str | None,
    with_groups: bool,
    no_check: bool,
) -> None:
    from ottla.pipelines.copy.clone import CloneSpec
    from ottla.runtime import system_runtime

    if target_bootstrap_server is None and target_command_config is None:
        target_command_config = given.command_config
    now_ms = system_runtime().clock.now_ms()
    from_ms = None if since is None else parse_since(since, now_ms, "--from")
    to_ms = None if until is None else parse_since(until, now_ms, "--to")
    if from_ms is not None and to_ms is not None and to_ms <= from_ms:
        raise click.UsageError(f"--to {until} is not after --from {since}.")
    spec = CloneSpec(
        endpoint(given.bootstrap, topic, given.command_config),
        endpoint(target_bootstrap_server or given.bootstrap, new, target_command_config),
        partitions,
        given.replication_factor,
        given.chosen_partitioner,
        from_ms,
        to_ms,
        with_groups,
        not no_check,
        since or "",
        until or "",
    )
    if not run_clone(spec, given):
        ctx.exit(1)
