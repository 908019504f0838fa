"""`transform`: topics to a topic, by Spark SQL or by a Python function of DataFrames.

What does not fit the schema goes to the dead-letter topic by a query of its own, so that it goes
there exactly once whatever the other query does with the rows that fit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.pipelines import dialects
from ottla.pipelines.functions import check_takes, load_function
from ottla.pipelines.progress import LEFT_OUT
from ottla.pipelines.records import ParsedRows, parse_values, to_records
from ottla.pipelines.spec import DEAD_LETTER_SUFFIX
from ottla.pipelines.spec_keys import SpecError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ottla.pipelines.context import JobContext, Stream
    from ottla.pipelines.spec import Transform


def streams(context: JobContext, job: Transform) -> list[Stream]:
    # Views belong to a session: with one of its own, two jobs may use the same name.
    context = replace(context, spark=dialects.with_own_views(context.spark))
    parsed = {
        source.view: parse_values(
            context.read_stream(job, [source.topic]),
            job.schema,
            # What goes to the dead letters is counted there.
            count_bad_as=f"{LEFT_OUT}_{number}" if job.dead_letter is None else None,
        )
        for number, source in enumerate(job.from_)
    }
    views = {view: _with_watermark(rows.good, job) for view, rows in parsed.items()}
    result = _by_sql(context, job, views) if job.sql is not None else _by_function(job, views)
    mode = job.mode or ("update" if needs_updates(result, job) else "append")
    records = to_records(result, job.record_key)
    found = [context.to_topic(job, job.name, records, job.to.name, mode)]
    bad = _dead_letters(parsed)
    if job.dead_letter is not None and bad is not None:
        name = job.name + DEAD_LETTER_SUFFIX
        found.append(context.to_topic(job, name, bad, job.dead_letter.name))
    return found


def _dead_letters(parsed: dict[str, ParsedRows]) -> DataFrame | None:
    bad: DataFrame | None = None
    for rows in parsed.values():
        if rows.bad is not None:
            bad = rows.bad if bad is None else bad.unionByName(rows.bad)
    return bad


def _with_watermark(frame: DataFrame, job: Transform) -> DataFrame:
    for column, delay in (job.watermark or {}).items():
        if column not in frame.columns:
            raise SpecError(f"watermark: there is no column {column!r}")
        frame = frame.withWatermark(column, delay)
    return frame


def _by_sql(context: JobContext, job: Transform, views: dict[str, DataFrame]) -> DataFrame:
    for view, frame in views.items():
        frame.createOrReplaceTempView(view)
    return context.spark.sql(job.sql or "")


def _by_function(job: Transform, views: dict[str, DataFrame]) -> DataFrame:
    from pyspark.sql import DataFrame

    place = job.function or ""
    function = load_function(place)
    check_takes(function, place, len(views))
    result = function(*views.values())
    if not isinstance(result, DataFrame):
        raise SpecError(f"function: {place} returned no DataFrame")
    return result


def needs_updates(frame: DataFrame, job: Transform) -> bool:
    """An aggregation without watermark never has a last word: each batch tells what changed."""
    if job.watermark:
        return False
    return "Aggregate [" in dialects.plan_text(frame)
