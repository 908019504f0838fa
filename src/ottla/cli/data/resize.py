"""`ottla resize`: fewer or more partitions for a topic, under its own name or another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.data.copies import (
    MAX_PARTITIONS,
    Given,
    copy_options,
    endpoint,
    on_spark,
    run_clone,
)
from ottla.cli.data.copy_bar import CopyBar
from ottla.cli.options import flag, print_json
from ottla.errors import ErrorCode, KafkaError
from ottla.topics.partitioners import Partitioner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.client.admin.resizing import ResizeBegun
    from ottla.pipelines.copy.ends import Endpoint
    from ottla.pipelines.copy.resize import Resize, ResizeReport, ResizeSpec


@click.command("resize", help="Give TOPIC another number of partitions, with keys and groups.")
@click.argument("topic")
@click.option("--partitions", type=click.IntRange(1, MAX_PARTITIONS), help="The wanted number.")
@click.option(
    "--to",
    "name",
    metavar="NAME",
    help="Into a new topic NAME, and TOPIC stays: for Apache Kafka, which cannot swap topics.",
)
@flag("no-check", "Do not read the copy back before it gets the name.")
@flag("abort", "Give up a resize that is under way: the topic stays as it was.")
@copy_options("resizes")
@click.pass_context
def command(
    ctx: click.Context,
    topic: str,
    given: Given,
    partitions: int | None,
    name: str | None,
    no_check: bool,
    abort: bool,
) -> None:
    from ottla.pipelines.copy import resize

    source = endpoint(given.bootstrap, topic, given.command_config)
    if abort:
        if partitions is not None or name is not None:
            raise click.UsageError("--abort stands alone: it needs no other shape.")
        resize.abort(source)
        click.echo(f"The resize of {topic} is given up, the topic is as it was.")
        return
    if partitions is None:
        raise click.UsageError("--partitions says how many it is to have.")
    if name is not None:
        if not _into(source, partitions, name, given, check=not no_check):
            ctx.exit(1)
        return
    _in_place(source, partitions, given, check=not no_check)


def _into(source: Endpoint, partitions: int, name: str, given: Given, *, check: bool) -> bool:
    from ottla.pipelines.copy.clone import CloneSpec

    target = endpoint(given.bootstrap, name, given.command_config)
    spec = CloneSpec(
        source,
        target,
        partitions,
        given.replication_factor,
        given.chosen_partitioner,
        with_groups=True,
        check=check,
    )
    topic = source.topic
    opening = (
        f"No swap: {topic} is copied into {name} with its keys and its groups' positions, and "
        "stays as it is."
    )
    ending = (
        f"Now let producers and consumers use {name}. What is written to {topic} from now on is "
        f"not in {name}."
    )
    return run_clone(spec, given, opening=opening, ending=ending)


def _in_place(source: Endpoint, partitions: int, given: Given, *, check: bool) -> None:
    from ottla.pipelines.copy import resize
    from ottla.pipelines.copy.clone import check_partitioner

    partitioner = given.chosen_partitioner or Partitioner.MURMUR2
    factor = given.replication_factor or -1
    spec = resize.ResizeSpec(source, partitions, partitioner, factor, check)
    asked = _asked(spec)
    if given.partitioner is None:
        check_partitioner(source, partitioner)
    _tell_plan(spec, asked, dry_run=given.dry_run)
    if given.dry_run:
        return

    def make(spark: SparkSession) -> tuple[Resize, CopyBar]:
        # Only now: where Spark does not start, no shadow is left behind.
        begun = resize.begin(spec)
        work = resize.Resize(spark, spec, begun, given.folder("resizes", begun.shadow))
        return work, CopyBar(None, stage=lambda: _stage(work))

    report = on_spark("ottla-resize", given.master, make)
    if given.output == "json":
        print_json(_report_json(report))
    else:
        for line in report.lines():
            click.echo(line)


def _asked(spec: ResizeSpec) -> ResizeBegun:
    """What the controller says to it; in a person's words where there is no such topic."""
    from ottla.pipelines.copy import resize
    from ottla.pipelines.copy.ends import CopyError

    try:
        return resize.begin(spec, validate_only=True)
    except CopyError as error:
        cause = error.__cause__
        if isinstance(cause, KafkaError) and cause.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            where = f"{spec.source.topic} at {spec.source.bootstrap}"
            raise CopyError(f"there is no topic {where}") from None
        raise


def _tell_plan(spec: ResizeSpec, begun: ResizeBegun, *, dry_run: bool) -> None:
    partitions = "partition" if begun.old_partitions == 1 else "partitions"
    replicas = "replica" if begun.replication_factor == 1 else "replicas"
    shape = f"{begun.old_partitions} {partitions} -> {spec.partitions}"
    click.echo(
        f"{spec.source.topic}: {shape}, {begun.replication_factor} {replicas}", err=not dry_run
    )
    # A new one has its name when it is made.
    begins = f"goes on with {begun.shadow}" if begun.is_resumed else "copies into a shadow topic"
    click.echo(f"{begins}, keys by {spec.partitioner}", err=not dry_run)
    after = "goes to the trash" if begun.retention_ms else "is deleted"
    click.echo(f"then the name changes hands, and the old topic {after}", err=not dry_run)


def _stage(work: Resize) -> str:
    seconds = work.fenced_s
    if seconds is not None:
        return f"fenced for {seconds:.1f} s"
    return "reading back" if work.is_checking else ""


def _report_json(report: ResizeReport) -> dict[str, object]:
    """That of the copy, and what a swap adds to it."""
    return {
        **report.copy.to_json(),
        "fencedSeconds": round(report.fenced_s, 3),
        "membersJoinAgain": report.end.members,
        "oldTopicInTrash": bool(report.retention_ms),
    }
