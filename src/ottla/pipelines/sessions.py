"""The Spark session of a pipeline that was not given one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.packaging import ship
from ottla.pipelines.spec import Ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.spec import Pipeline

DEFAULT_MASTER = "local[*]"


@contextmanager
def pipeline_session(pipeline: Pipeline) -> Iterator[SparkSession]:
    from ottla.spark.session import session, stop_session

    settings = {
        # Small data is the rule; 200 empty tasks for every batch would be slow.
        "spark.sql.shuffle.partitions": "8",
        "spark.ui.showConsoleProgress": "false",
        **pipeline.spark,
    }
    spark = session(
        pipeline.name,
        master=pipeline.master or DEFAULT_MASTER,
        kafka_connector=needs_connector(pipeline),
        conf=settings,
    )
    try:
        with tempfile.TemporaryDirectory(prefix="ottla-") as folder:
            ship(spark, Path(folder))
            yield spark
    finally:
        stop_session(spark)


def needs_connector(pipeline: Pipeline) -> bool:
    """True if a topic is read or written through the official connector."""
    own = [job.format for job in pipeline.jobs if not isinstance(job, Ingest)]
    return "kafka" in (pipeline.format, *own)
