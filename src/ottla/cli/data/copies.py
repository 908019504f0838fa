"""What `ottla clone` and `ottla resize` share: options, checkpoint folders, the Spark session, and
the clone itself, which is also what a resize into another name is."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from ottla.cli.data.copy_bar import CopyBar
from ottla.cli.options import (
    BOOTSTRAP_VARIABLE,
    DEFAULT_BOOTSTRAP,
    bootstrap_option,
    command_config_option,
    flag,
    output_option,
    print_json,
)
from ottla.errors import OttlaError
from ottla.topics.partitioners import Partitioner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.copy.clone import CloneSpec
    from ottla.pipelines.copy.copier import Progress
    from ottla.pipelines.copy.ends import Endpoint
    from ottla.pipelines.copy.folder import CopyFolder

# What their fields in requests can hold.
MAX_PARTITIONS, MAX_REPLICAS = 2**31 - 1, 2**15 - 1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Work(Protocol[R_co]):
    """A copy that can be stopped from a signal handler."""

    def stop(self) -> None: ...

    def run(self, watch: Callable[[Progress], None]) -> R_co: ...


class Given(NamedTuple):
    """The options that both commands have."""

    bootstrap_server: str | None
    command_config: Path | None
    replication_factor: int | None
    partitioner: str | None
    dry_run: bool
    checkpoints: Path | None
    master: str
    output: str

    @property
    def bootstrap(self) -> str:
        return self.bootstrap_server or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP

    @property
    def chosen_partitioner(self) -> Partitioner | None:
        return None if self.partitioner is None else Partitioner(self.partitioner)

    def folder(self, *names: str) -> CopyFolder:
        """Of one copy, `~/.local/state/ottla/<names>`; a folder that was given replaces all but the
        names of the copy itself."""
        from ottla.pipelines.copy.folder import CopyFolder
        from ottla.runtime import SystemDisk

        kind, *others = names
        folder = self.checkpoints
        if folder is None:
            state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
            folder = Path(state) / "ottla" / kind
        return CopyFolder(SystemDisk(), folder.joinpath(*others))


def copy_options(noun: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The command gets them as one parameter, `given`. `noun` is what is made: `clones`."""
    options = [
        bootstrap_option,
        command_config_option,
        click.option(
            "--replication-factor",
            type=click.IntRange(1, MAX_REPLICAS),
            help="[default: that of TOPIC]",
        ),
        click.option(
            "--partitioner",
            type=click.Choice([str(one) for one in Partitioner]),
            help="Where a key goes when the number of partitions changes: as the topic's producers "
            "hash.  [default: murmur2]",
        ),
        flag("dry-run", "Say what would be done, and do nothing."),
        click.option(
            "--checkpoints",
            type=click.Path(file_okay=False, path_type=Path),
            help=f"Folder of what unfinished {noun} know.  [default: ~/.local/state/ottla/{noun}]",
        ),
        click.option("--master", metavar="URL", default="local[*]", help="Spark's master."),
        output_option,
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        @functools.wraps(command)
        def gathered(*args: Any, **named: Any) -> Any:
            given = Given(**{name: named.pop(name) for name in Given._fields})
            return command(*args, given=given, **named)

        wrapped: Callable[..., Any] = gathered
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped

    return decorate


def endpoint(bootstrap: str, topic: str, command_config: Path | None) -> Endpoint:
    from ottla.config.definitions import parse_properties
    from ottla.pipelines.copy.ends import Endpoint

    if command_config is None:
        return Endpoint(bootstrap, topic)
    settings = parse_properties(command_config.read_text(encoding="latin-1"))
    return Endpoint(bootstrap, topic, settings)


def run_clone(spec: CloneSpec, given: Given, *, opening: str = "", ending: str = "") -> bool:
    """Says the plan, does it, says the report, between `opening` and `ending`; returns whether all
    is sound."""
    from ottla.pipelines.copy.clone import Clone, cluster_id, plan

    # One folder for each clone: by the target's cluster and name.
    folder = given.folder("clones", cluster_id(spec.target) or "cluster", spec.target.topic)
    planned = plan(spec, folder)
    for line in (opening, *planned.lines(spec)):
        if line:
            click.echo(line, err=not given.dry_run)
    if given.dry_run:
        return True

    def make(spark: SparkSession) -> tuple[Clone, CopyBar]:
        clone = Clone(spark, spec, planned, folder)
        return clone, CopyBar(planned.offsets, stage=lambda: clone.stage)

    report = on_spark("ottla-clone", given.master, make)
    if given.output == "json":
        print_json(report.to_json())
    else:
        for line in report.lines():
            click.echo(line)
        if ending:
            click.echo(ending)
    return report.is_sound


class _Stopping:
    """SIGINT and SIGTERM, from the first moment: they are told to whoever can stop in good order,
    and before there is anybody they interrupt."""

    def __init__(self) -> None:
        self._stop: Callable[[], None] | None = None

    def __enter__(self) -> _Stopping:
        self._before = {number: signal.signal(number, self._heed) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def tell(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        # Once more: PySpark has set a handler of its own.
        for number in _SIGNALS:
            signal.signal(number, self._heed)

    def _heed(self, *_: object) -> None:
        if self._stop is None:
            raise KeyboardInterrupt
        self._stop()


def on_spark(name: str, master: str, make: Callable[[SparkSession], tuple[Work[R], CopyBar]]) -> R:
    """What the work's `run` returns, in a session of its own. Its log is kept where it fails."""
    from ottla.pipelines.sessions import started
    from ottla.spark.launch.session import stop_session

    log = Path(tempfile.gettempdir()) / f"{name}-{os.getpid()}.log"
    settings = {"spark.ui.showConsoleProgress": "false", "spark.ui.enabled": "false"}
    with _Stopping() as stopping:
        try:
            spark = started(name, master, settings, log=log)
            try:
                work, bar = make(spark)
                stopping.tell(work.stop)
                with bar:
                    report = work.run(bar.show)
            finally:
                stop_session(spark)
        except OttlaError as error:
            raise OttlaError(f"{error} (Spark's own log: {log})") from None
        except KeyboardInterrupt:
            log.unlink(missing_ok=True)
            raise OttlaError(
                "stopped while Spark was starting: no record is copied yet, the same command begins"
            ) from None
    log.unlink(missing_ok=True)
    return report
