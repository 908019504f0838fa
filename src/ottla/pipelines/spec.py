"""Pipelines and their jobs, as data: made by `spec_reader` from a file, or in Python.

Nothing here imports Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from ottla.pipelines.spec_keys import (
    LOOPBACK,
    Address,
    Kind,
    Restart,
    Source,
    SpecError,
    TopicSpec,
    key,
)
from ottla.pipelines.spec_secrets import NO_SECRETS, Secrets

FORMATS = ("ottla", "kafka")
AVAILABLE_NOW = "available_now"
DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TRIGGER = "1 second"
DEAD_LETTER_SUFFIX = "-dead-letter"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all jobs share. None takes what the pipeline says."""

    kind: ClassVar[str] = ""
    # Jobs before the streams, the streams themselves, and jobs after their end.
    phase: ClassVar[str] = "stream"

    name: str = key(
        Kind.TEXT,
        "Name of the job, of its checkpoint and in reports.",
        default="",
        is_identity=False,
    )
    bootstrap_servers: str | None = key(
        Kind.TEXT, "Brokers to ask first.", default=None, is_identity=False
    )
    format: str | None = key(
        Kind.TEXT,
        "Spark's data source for topics.",
        default=None,
        choices=FORMATS,
        is_identity=False,
    )
    kafka: Mapping[str, str] | None = key(
        Kind.SETTINGS,
        "Settings of the clients, such as security.protocol.",
        default=None,
        is_identity=False,
    )

    def reads(self) -> tuple[str, ...]:
        """The topics that the job reads."""
        return ()

    def writes(self) -> tuple[TopicSpec, ...]:
        """The topics that the job writes, and makes where they are missing."""
        return ()

    def stream_names(self) -> tuple[str, ...]:
        """The names of the job and of its queries, which are those of their checkpoints."""
        return (self.name,)

    def check(self) -> None:
        """Raises SpecError for values that do not go together."""


@dataclass(frozen=True, kw_only=True)
class StreamJob(Job):
    trigger: str | None = key(
        Kind.TRIGGER, "When a micro-batch begins.", default=None, is_identity=False
    )
    restart: Restart | None = key(
        Kind.RESTART, "What happens after a failure.", default=None, is_identity=False
    )
    options: Mapping[str, str] | None = key(
        Kind.SETTINGS, "Further options of Spark's reader.", default=None, is_identity=False
    )


@dataclass(frozen=True, kw_only=True)
class TopicStreamJob(StreamJob):
    from_: tuple[Source, ...] = key(Kind.SOURCES, "The topics to read.")
    starting: str = key(
        Kind.TEXT,
        "Where a job without a checkpoint begins.",
        default="earliest",
        choices=("earliest", "latest"),
        is_identity=False,
    )
    max_records_per_batch: int | None = key(
        Kind.INTEGER,
        "The most records in one micro-batch.",
        default=None,
        least=1,
        is_identity=False,
    )

    def reads(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.from_)


@dataclass(frozen=True, kw_only=True)
class Ingest(StreamJob):
    """Files or a rate source -> topic."""

    kind: ClassVar[str] = "ingest"
    SOURCES: ClassVar[tuple[str, ...]] = ("csv", "json", "parquet", "text", "rate")

    # `format` is the files' here, as in the file's first line; topics take the pipeline's.
    format: str = key(Kind.TEXT, "What is read.", choices=SOURCES)
    topic: TopicSpec = key(Kind.TOPIC, "The topic to write.")
    path: str | None = key(Kind.PATH, "The folder whose files are read.", default=None)
    schema: str | None = key(
        Kind.SCHEMA, "Columns of the files; taken from those that are there.", default=None
    )
    select: tuple[str, ...] = key(
        Kind.TEXTS, "SQL expressions that make the rows to write.", default=()
    )
    record_key: str | None = key(Kind.TEXT, "SQL expression of the records' keys.", default=None)
    rows_per_second: int = key(Kind.INTEGER, "Of a rate source.", default=100, least=1)
    max_files_per_batch: int | None = key(
        Kind.INTEGER, "The most files in one micro-batch.", default=None, least=1, is_identity=False
    )

    def writes(self) -> tuple[TopicSpec, ...]:
        return (self.topic,)

    def check(self) -> None:
        if self.format == "rate" and self.path is not None:
            raise SpecError("'path' goes with files, not with format: rate")
        if self.format != "rate" and self.path is None:
            raise SpecError(f"format: {self.format} needs 'path'")


@dataclass(frozen=True, kw_only=True)
class Transform(TopicStreamJob):
    """Topics -> topic, by SQL or a Python function."""

    kind: ClassVar[str] = "transform"

    to: TopicSpec = key(Kind.TOPIC, "The topic to write.")
    sql: str | None = key(Kind.TEXT, "A query over the topics' views.", default=None)
    function: str | None = key(
        Kind.FUNCTION, "module:function or file.py:function, DataFrames -> DataFrame.", default=None
    )
    schema: str = key(Kind.SCHEMA, "What the values hold.", default="bytes")
    dead_letter: TopicSpec | None = key(
        Kind.TOPIC, "The topic for rows that do not fit the schema.", default=None
    )
    watermark: Mapping[str, str] | None = key(
        Kind.SETTINGS, "A time column and how late its rows may be.", default=None
    )
    record_key: str | None = key(Kind.TEXT, "SQL expression of the records' keys.", default=None)
    mode: str | None = key(
        Kind.TEXT,
        "Spark's output mode; by default, the one that the query needs.",
        default=None,
        choices=("append", "update", "complete"),
    )

    def writes(self) -> tuple[TopicSpec, ...]:
        return (self.to,) if self.dead_letter is None else (self.to, self.dead_letter)

    def stream_names(self) -> tuple[str, ...]:
        second = () if self.dead_letter is None else (self.name + DEAD_LETTER_SUFFIX,)
        return (self.name, *second)

    def check(self) -> None:
        if (self.sql is None) == (self.function is None):
            raise SpecError("one of 'sql' and 'function' is needed")
        if self.dead_letter is not None and self.schema in ("bytes", "text"):
            raise SpecError(
                f"'dead_letter' needs columns in 'schema': every row fits {self.schema}"
            )
        for topic in self.writes():
            if topic.name in self.reads():
                raise SpecError(f"reads and writes the topic {topic.name}")


@dataclass(frozen=True, kw_only=True)
class Archive(TopicStreamJob):
    """Topics -> Parquet by date, exactly once."""

    kind: ClassVar[str] = "archive"

    path: str = key(Kind.PATH, "The folder to write.")
    partition_by: str = key(
        Kind.TEXT, "One folder for each.", default="date", choices=("date", "hour", "none")
    )
    time_zone: str = key(
        Kind.ZONE, "Whose days and hours the folders are, such as Europe/Berlin.", default="UTC"
    )
    compact_files: int = key(
        Kind.INTEGER,
        "Small files of a folder that are joined into one; 0: never.",
        default=32,
        least=0,
        is_identity=False,
    )
    small_file_mb: int = key(
        Kind.INTEGER, "What counts as small.", default=32, least=1, is_identity=False
    )


@dataclass(frozen=True, kw_only=True)
class Restore(Job):
    """Archive -> topic, every record as it was."""

    kind: ClassVar[str] = "restore"
    phase: ClassVar[str] = "before"

    path: str = key(Kind.PATH, "The folder of the archive.")
    topic: TopicSpec = key(Kind.TOPIC, "The topic to write.")
    from_: str | None = key(Kind.TEXT, "Only records of this topic.", default=None)
    where: str | None = key(Kind.TEXT, "SQL condition on the archived rows.", default=None)
    append: bool = key(Kind.FLAG, "Write into a topic that holds records.", default=False)

    def writes(self) -> tuple[TopicSpec, ...]:
        return (self.topic,)


@dataclass(frozen=True, kw_only=True)
class Mirror(TopicStreamJob):
    """Topics of a cluster -> the same of another one."""

    kind: ClassVar[str] = "mirror"

    to_bootstrap_servers: str = key(Kind.TEXT, "Brokers of the other cluster.", is_identity=False)
    to_kafka: Mapping[str, str] | None = key(
        Kind.SETTINGS, "Settings of the other cluster's clients.", default=None, is_identity=False
    )
    prefix: str = key(Kind.TEXT, "Put before the topics' names over there.", default="")
    replication_factor: int = key(
        Kind.INTEGER,
        "Of topics made over there; -1: that cluster's default.",
        default=-1,
        is_identity=False,
    )
    groups: tuple[str, ...] = key(
        Kind.TEXTS,
        "Groups whose positions are carried over; '*' for all.",
        default=(),
        is_identity=False,
    )


@dataclass(frozen=True, kw_only=True)
class Profile(Job):
    """Key skew, sizes, rates, gaps and nulls of topics."""

    kind: ClassVar[str] = "profile"
    phase: ClassVar[str] = "after"

    from_: tuple[Source, ...] = key(Kind.SOURCES, "The topics to read.")
    json: str | None = key(Kind.PATH, "A file for the figures.", default=None)
    html: str | None = key(Kind.PATH, "A file for a page with plots.", default=None)
    top_keys: int = key(Kind.INTEGER, "How many of the most frequent keys.", default=10, least=1)

    def reads(self) -> tuple[str, ...]:
        return tuple(source.topic for source in self.from_)


@dataclass(frozen=True, kw_only=True)
class Audit(Job):
    """What happened to which topic when, and how long."""

    kind: ClassVar[str] = "audit"
    phase: ClassVar[str] = "after"

    topic: str = key(Kind.TEXT, "The lifecycle topic.", default="__ottla_lifecycle")
    only: str | None = key(Kind.TEXT, "Only what happened to this topic.", default=None)
    json: str | None = key(Kind.PATH, "A file for the findings.", default=None)

    def reads(self) -> tuple[str, ...]:
        return (self.topic,)


JOB_KINDS: dict[str, type[Job]] = {
    job.kind: job for job in (Ingest, Transform, Archive, Restore, Mirror, Profile, Audit)
}


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """Jobs that run in one Spark session, joined by the topics they write and read."""

    name: str = key(Kind.TEXT, "Name of the pipeline.", default="pipeline")
    bootstrap_servers: str | None = key(Kind.TEXT, "Brokers to ask first.", default=None)
    checkpoints: str = key(
        Kind.PATH, "Folder of the checkpoints, one for each job.", default="./checkpoints"
    )
    format: str = key(
        Kind.TEXT, "Spark's data source for topics.", default="ottla", choices=FORMATS
    )
    master: str | None = key(Kind.TEXT, "Spark's master; local[*] without one.", default=None)
    trigger: str = key(Kind.TRIGGER, "When a micro-batch begins.", default=DEFAULT_TRIGGER)
    restart: Restart = key(
        Kind.RESTART, "What happens after a failure of a job.", default=Restart()
    )
    stop_timeout: float = key(
        Kind.DURATION,
        "How long jobs may take to finish what they have read, when stopped.",
        default=60.0,
    )
    metrics_port: int | None = key(
        Kind.INTEGER, "Serves Prometheus metrics there.", default=None, least=0
    )
    metrics: Address | None = key(
        Kind.ADDRESS, "Serves Prometheus metrics there, by these names of the host.", default=None
    )
    fail_fast: bool = key(
        Kind.FLAG, "One job that has failed for good ends the others.", default=False
    )
    kafka: Mapping[str, str] = field(
        default_factory=dict,
        repr=False,
        metadata={
            "kind": Kind.SETTINGS,
            "help": "Settings of the clients, such as security.protocol.",
            "choices": (),
            "least": None,
        },
    )
    spark: Mapping[str, str] = field(
        default_factory=dict,
        repr=False,
        metadata={
            "kind": Kind.SETTINGS,
            "help": "Settings of Spark, such as spark.sql.shuffle.partitions.",
            "choices": (),
            "least": None,
        },
    )
    jobs: tuple[Job, ...] = ()
    # Where it was read from, for messages; empty for one that was made in Python.
    file: str = ""
    # What nobody is to see of its values.
    secrets: Secrets = field(default=NO_SECRETS, repr=False, compare=False)

    def metrics_address(self) -> Address | None:
        if self.metrics is None and self.metrics_port is not None:
            return Address(LOOPBACK, self.metrics_port)
        return self.metrics

    def servers_of(self, job: Job) -> str:
        return job.bootstrap_servers or self.bootstrap_servers or DEFAULT_BOOTSTRAP

    def kafka_of(self, job: Job) -> dict[str, str]:
        return {**self.kafka, **(job.kafka or {})}

    def topic_format_of(self, job: Job) -> str:
        # The format of an ingest job is that of its files.
        own = None if isinstance(job, Ingest) else job.format
        return own or self.format

    def topics(self) -> Iterator[tuple[Job, TopicSpec]]:
        for job in self.jobs:
            for topic in job.writes():
                yield job, topic

    def declared_topics(self) -> dict[str, TopicSpec]:
        """The topics that jobs write; of two mentions one may be the bare name."""
        declared: dict[str, TopicSpec] = {}
        for job, topic in self.topics():
            bare = TopicSpec(topic.name)
            known = declared.get(topic.name, bare)
            if bare not in (known, topic) and topic != known:
                raise SpecError(f"job {job.name}: the topic {topic.name} is declared in two ways")
            declared[topic.name] = topic if known == bare else known
        return declared

    def named(self) -> Pipeline:
        """Jobs without a name get one: their kind and topic. Raises SpecError where that would be
        the name of two that have checkpoints: with a number each, the checkpoints would change
        hands when one is put before the other."""
        taken = {job.name: number for number, job in enumerate(self.jobs, 1) if job.name}
        jobs = []
        for number, job in enumerate(self.jobs, 1):
            if not job.name:
                name = _default_name(job)
                if name in taken and isinstance(job, StreamJob):
                    raise SpecError(
                        f"jobs {taken[name]} and {number} could be taken for each other, both "
                        f"would be called {name!r}: give them a 'name' each, their checkpoints "
                        "are found by it"
                    )
                job = replace(job, name=_free_name(name, taken))
                taken[job.name] = number
            jobs.append(job)
        return replace(self, jobs=tuple(jobs))

    def check(self) -> None:
        """Raises SpecError for jobs that do not go together."""
        names = [name for job in self.jobs for name in job.stream_names()]
        for name in names:
            if name and names.count(name) > 1:
                raise SpecError(f"two jobs are called {name!r}: they would share a checkpoint")
            if "/" in name or name.startswith((".", "_")):
                raise SpecError(
                    f"{name!r} cannot be a job's name: it is that of a folder too, so without '/' "
                    "and with neither '.' nor '_' first"
                )
        if self.metrics is not None and self.metrics_port is not None:
            raise SpecError("'metrics' and 'metrics_port' say the same: one of the two")
        self.declared_topics()
        archives = [str(Path(job.path)) for job in self.jobs if isinstance(job, Archive)]
        for path in archives:
            if archives.count(path) > 1:
                raise SpecError(f"two archive jobs write the folder {path}")


def _default_name(job: Job) -> str:
    topics = [topic.name for topic in job.writes()][:1] or list(job.reads())[:1]
    return "-".join([job.kind, *topics])


def _free_name(name: str, taken: Mapping[str, int]) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}-{number}", number + 1
    return free
