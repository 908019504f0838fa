"""The Spark session of a pipeline that was not given one."""

from __future__ import annotations

import logging
import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla.errors import OttlaError
from ottla.pipelines.report import reason_of
from ottla.pipelines.spec import Ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.spec import Pipeline

DEFAULT_MASTER = "local[*]"
CONNECT_SCHEME = "sc://"
CONNECT_PORT = 15_002
_REACH_TIMEOUT_S = 10.0
LOG_NAME = "spark.log"
_STDERR = 2


@contextmanager
def pipeline_session(pipeline: Pipeline, *, log: Path | None = None) -> Iterator[SparkSession]:
    """With `log` what Spark's JVM and its workers say goes there and not to stderr."""
    from ottla.spark.launch.session import stop_session

    _silence_query_contexts()
    if (pipeline.master or "").startswith(CONNECT_SCHEME):
        spark = _connect(pipeline)
        try:
            yield spark
        finally:
            spark.stop()
        return
    settings = {
        # Small data is the rule; 200 empty tasks for every batch would be slow.
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.showConsoleProgress": "false",
        **pipeline.spark,
    }
    spark = started(
        pipeline.name,
        pipeline.master or DEFAULT_MASTER,
        settings,
        kafka_connector=needs_connector(pipeline),
        log=log,
    )
    try:
        yield spark
    finally:
        stop_session(spark)


def started(
    name: str,
    master: str,
    settings: Mapping[str, str],
    *,
    kafka_connector: bool = False,
    log: Path | None = None,
) -> SparkSession:
    """A session of this process. Raises OttlaError with Spark's first words where none starts."""
    from ottla.spark.launch.session import session

    with stderr_to(log) if log is not None else nullcontext():
        try:
            return session(name, master=master, kafka_connector=kafka_connector, conf=settings)
        except OttlaError:
            raise
        except Exception as error:  # whatever Spark raises
            raise OttlaError(f"Spark does not start at {master}: {reason_of(error)}") from error


def _connect(pipeline: Pipeline) -> SparkSession:
    """A session of a server that runs already; raises OttlaError where it does not."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    url = pipeline.master or ""
    _reach(url)
    try:
        spark = SparkSession.builder.remote(url).create()
        for name, value in pipeline.spark.items():
            spark.conf.set(name, value)
    except ImportError as error:
        raise OttlaError(
            f"{url}: Spark Connect is not installed: pip install 'pyspark[connect]'"
        ) from error
    except PySparkException as error:
        raise OttlaError(f"{url}: {reason_of(error)}") from None
    return spark


def _reach(url: str) -> None:
    """Spark's client tries for many minutes; a server that is not there is told at once."""
    place = urlsplit(url)
    try:
        port = place.port or CONNECT_PORT
    except ValueError as error:
        raise OttlaError(f"{url}: {error}") from None
    try:
        socket.create_connection((place.hostname or "", port), _REACH_TIMEOUT_S).close()
    except OSError as error:
        raise OttlaError(
            f"{url}: no server of Spark Connect answers: {error.strerror or error}"
        ) from None


def _silence_query_contexts() -> None:
    """PySpark writes pages of JSON to stderr for every error in SQL; the error itself says all."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def needs_connector(pipeline: Pipeline) -> bool:
    """True if a topic is read or written through the official connector."""
    own = [job.format for job in pipeline.jobs if not isinstance(job, Ingest)]
    return "kafka" in (pipeline.format, *own)


def log_path(pipeline: Pipeline) -> Path:
    """Beside the checkpoints, where those are on this machine."""
    is_local = "://" not in pipeline.checkpoints
    folder = Path(pipeline.checkpoints if is_local else tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    return folder / LOG_NAME


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Processes started meanwhile inherit the file as their stderr and keep it."""
    sys.stderr.flush()
    kept = os.dup(_STDERR)
    with path.open("ab") as log:
        os.dup2(log.fileno(), _STDERR)
    try:
        yield
    finally:
        os.dup2(kept, _STDERR)
        os.close(kept)
