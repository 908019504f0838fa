"""`ottla pipeline`: data pipelines over topics, on Spark.

`run` takes a file with many jobs, every other command is one job with its values as options.
"""

from __future__ import annotations

import dataclasses
import os
import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.hints import HintingGroup
from ottla.cli.options import BOOTSTRAP_VARIABLE, print_json
from ottla.pipelines.checkpoints.judge import Choices
from ottla.pipelines.spec import JOB_KINDS, Pipeline
from ottla.pipelines.spec_keys import (
    Kind,
    SpecError,
    SpecErrors,
    is_required,
    parse_duration_s,
    yaml_name,
)
from ottla.pipelines.spec_reader import job_from_values, load_pipeline, override
from ottla.pipelines.spec_secrets import References

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.pipelines.report import PipelineReport


@click.group("pipeline", cls=HintingGroup, help="Run data pipelines over topics, on Spark.")
def command() -> None:
    pass


def _run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--bootstrap-server", metavar="HOST:PORT,…", help="Brokers to ask first."),
            click.option("--master", metavar="URL", help="Spark's master.  [default: local[*]]"),
            click.option("--checkpoints", type=click.Path(), help="Folder of the checkpoints."),
            click.option(
                "--metrics", metavar="[HOST:]PORT", help="Serve Prometheus metrics there."
            ),
            click.option(
                "--reset", multiple=True, metavar="JOB", help="This job begins anew: no checkpoint."
            ),
            click.option(
                "--adopt",
                multiple=True,
                metavar="JOB",
                help="This job, though changed, goes on with the checkpoint that is there.",
            ),
            click.option(
                "--fail-fast", is_flag=True, help="One job that fails for good ends the others."
            ),
            click.option("--for", "limit", metavar="DURATION", help="Stop after '90 seconds', …"),
            click.option(
                "--output", type=click.Choice(["text", "json"]), default="text", show_default=True
            ),
        )
    ):
        function = option(function)
    return function


@command.command("run", help="Run the jobs of a pipeline file until they end or Ctrl-C.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--format", "topic_format", help="Spark's data source for topics: ottla or kafka.")
@click.option("--trigger", help="available_now, or a duration such as '2 seconds'.")
@_run_options
@click.pass_context
def run_file(
    ctx: click.Context,
    /,
    file: Path,
    topic_format: str | None,
    trigger: str | None,
    **shared: Any,
) -> None:
    given = {"format": topic_format, "trigger": trigger}
    with _each_on_a_line():
        pipeline = override(load_pipeline(file), given, "command line")
        code = _run(pipeline, **shared)
    ctx.exit(code)


@command.command("check", help="Look for all that is wrong with a pipeline file; run nothing.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--bootstrap-server", metavar="HOST:PORT,…", help="Brokers to ask first.")
@click.option(
    "--spark/--no-spark",
    default=None,
    help="Let Spark read SQL and schemas, or not.  [default: where it is installed]",
)
@click.pass_context
def check(ctx: click.Context, file: Path, bootstrap_server: str | None, spark: bool | None) -> None:
    with _each_on_a_line():
        pipeline = load_pipeline(file)
        servers = {"bootstrap_servers": _servers(pipeline, bootstrap_server)}
        wrong = _problems(override(pipeline, servers, "command line"), spark)
    for line in wrong:
        click.echo(f"Error: {line}", err=True)
    if wrong:
        ctx.exit(1)
    for job in pipeline.jobs:
        arrow = ", ".join(job.reads()) or "-"
        targets = ", ".join(topic.name for topic in job.writes()) or "-"
        click.echo(f"{job.name}: {arrow} -> {targets}")


def _problems(pipeline: Pipeline, with_spark: bool | None) -> list[str]:
    from ottla.pipelines.checks import before_spark, plans, problems
    from ottla.pipelines.context import JobContext
    from ottla.pipelines.sessions import pipeline_session
    from ottla.spark.launch.session import SparkMissing, missing_reason

    found = before_spark.find(pipeline)
    missing = missing_reason()
    if with_spark and missing is not None:
        raise SparkMissing(missing)
    if with_spark is None and missing is not None:
        click.echo(f"SQL and schemas are not looked at: {missing}", err=True)
    if with_spark is not False and missing is None:
        # Plans need no cluster of Spark's, and nothing of what its JVM says.
        local = dataclasses.replace(pipeline, master="local[1]")
        with pipeline_session(local, log=Path(os.devnull)) as spark:
            barred = {problem.job for problem in found if problem.bars_plan}
            found += [p for p in plans.find(JobContext(spark, local)) if p.job not in barred]
    return problems.lines(pipeline, found)


@contextmanager
def _each_on_a_line() -> Iterator[None]:
    """Several errors are several lines."""
    try:
        yield
    except SpecErrors as errors:
        for line in errors.lines:
            click.echo(f"Error: {line}", err=True)
        click.get_current_context().exit(1)


def _job_command(kind: str) -> click.Command:
    job_class = JOB_KINDS[kind]
    fields = [f for f in dataclasses.fields(job_class) if "kind" in f.metadata]
    # --bootstrap-server is the same for all commands.
    own = [f for f in fields if f.name != "bootstrap_servers"]
    names = {field.name for field in own}

    def run_job(**given: Any) -> None:
        shared = {name: given.pop(name) for name in list(given) if name not in names}
        values = {
            yaml_name(f): _from_text(f.metadata["kind"], given[f.name])
            for f in own
            if given[f.name] not in (None, ())
        }
        references = References(os.environ, Path())
        job = job_from_values(kind, references.fill(values, kind), kind, Path())
        secrets = references.secrets()
        pipeline = Pipeline(name=job.name or kind, jobs=(job,), secrets=secrets).named()
        with _each_on_a_line():
            code = _run(pipeline, **shared)
        click.get_current_context().exit(code)

    built: Any = _run_options(run_job)
    for field in reversed(own):
        built = _option(field)(built)
    summary = (job_class.__doc__ or "").splitlines()[0]
    made: click.Command = click.command(kind, help=summary)(built)
    return made


def _option(field: dataclasses.Field[Any]) -> Callable[[Any], Any]:
    kind: Kind = field.metadata["kind"]
    name = yaml_name(field).replace("_", "-")
    choices = field.metadata["choices"]
    text = field.metadata["help"] + (f" One of {', '.join(choices)}." if choices else "")
    many = kind in (Kind.SETTINGS, Kind.TEXTS, Kind.SOURCES)
    return click.option(
        f"--{name}",
        field.name,
        help=text,
        required=is_required(field),
        multiple=many,
        metavar="KEY=VALUE" if kind is Kind.SETTINGS else kind.name,
    )


def _from_text(kind: Kind, given: Any) -> Any:
    """What an option says, as a file would say it."""
    import yaml

    if kind is Kind.SETTINGS:
        pairs = [item.partition("=") for item in given]
        for name, equals, _ in pairs:
            if not equals:
                raise click.BadParameter(f"{name!r} is not key=value")
        return {name: value for name, _, value in pairs}
    if kind in (Kind.TEXTS, Kind.SOURCES):
        return list(given)
    if kind in (Kind.INTEGER, Kind.FLAG) or (
        kind in (Kind.TOPIC, Kind.RESTART) and given.lstrip().startswith("{")
    ):
        try:
            return yaml.safe_load(given)
        except yaml.YAMLError:
            return given
    return given


def _run(
    pipeline: Pipeline,
    bootstrap_server: str | None,
    master: str | None,
    checkpoints: str | None,
    metrics: str | None,
    limit: str | None,
    output: str,
    reset: tuple[str, ...],
    adopt: tuple[str, ...],
    fail_fast: bool,
) -> int:
    changes = {
        "bootstrap_servers": _servers(pipeline, bootstrap_server),
        "master": master,
        "checkpoints": checkpoints,
        "metrics": int(metrics) if metrics is not None and metrics.isdecimal() else metrics,
        "fail_fast": fail_fast or None,
    }
    if metrics is not None:
        pipeline = dataclasses.replace(pipeline, metrics_port=None)
    try:
        limit_s = None if limit is None else parse_duration_s(limit)
    except ValueError:
        raise SpecError(f"--for: {limit!r} is not {Kind.DURATION.value}") from None
    choices = Choices(frozenset(reset), frozenset(adopt))
    report = _execute(override(pipeline, changes, "command line"), limit_s, choices)
    if output == "json":
        print_json(report.to_json())
    else:
        for line in report.lines():
            click.echo(line)
    return 0 if report.is_sound else 1


def _servers(pipeline: Pipeline, given: str | None) -> str | None:
    return given or pipeline.bootstrap_servers or os.environ.get(BOOTSTRAP_VARIABLE)


def _execute(pipeline: Pipeline, limit_s: float | None, choices: Choices) -> PipelineReport:
    from contextlib import ExitStack

    from rich.console import Console

    from ottla.pipelines import live, sessions
    from ottla.pipelines.checks import before_spark, problems
    from ottla.pipelines.runner import StopSignal, run_pipeline
    from ottla.runtime import system_runtime

    problems.raise_for(pipeline, before_spark.find(pipeline, choices))
    stop = StopSignal()
    # The report goes to stdout, what happens meanwhile to stderr.
    console = Console(stderr=True)
    with ExitStack() as stack:
        log = sessions.log_path(pipeline)
        console.print(f"Spark's own log: {log}", highlight=False, soft_wrap=True)
        spark = stack.enter_context(sessions.pipeline_session(pipeline, log=log))
        # After the session is there: PySpark sets a handler of its own.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.stop())
        view = stack.enter_context(live.LiveView(console, system_runtime().clock))
        return run_pipeline(
            pipeline,
            spark,
            signal=stop,
            watch=view.update,
            announce=lambda text: console.print(
                text, highlight=False, markup=False, soft_wrap=True
            ),
            limit_s=limit_s,
            reset=choices.reset,
            adopt=choices.adopt,
        )


for _kind in JOB_KINDS:
    command.add_command(_job_command(_kind))
