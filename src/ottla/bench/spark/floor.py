"""The floor of a micro-batch: what Spark, a source and a sink take where there is hardly a record.

A query copies a topic of four partitions to another in micro-batches of 40 records. Its times are
those of Spark's own progress reports, whole (`triggerExecution`) and phase by phase, without the
first of each query. The connector runs as it comes in plain Spark, and again with the settings of
`session()`. An empty Python source with an empty Python sink shows what of it is Spark's.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.bench.spark.shapes import PLAIN
from ottla.bench.spark.sides import DEFAULT, OURS, PARTITIONS, TUNED, Side, Taken, Workbench
from ottla.bench.table import Row
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

BATCHES = 30
# The first of a query start Python processes, compile and connect.
WARM_UP_BATCHES = 4
ROUNDS = 3
BATCH_RECORDS = 40
# The goals. They are never edited to fit a result.
FLOOR_GOAL, ONCE_GOAL = 0.7, 1.0
# Longer than any micro-batch of a machine that works.
QUERY_TIMEOUT_S = 600

ONCE = Side("ottla, exactly once", "ottla", {}, {"deliveryGuarantee": "exactly_once"})
PLAIN_SINK = Side("ottla", "ottla", {}, {"deliveryGuarantee": "at_least_once"})
# Small partitions in one task: fewer of them for Spark to start.
SHARING = {"minRecordsPerPartition": "1000"}
SHARED = PLAIN_SINK._replace(title="ottla, one task", read=SHARING)
SHARED_ONCE = ONCE._replace(title="ottla, one task, exactly once", read=SHARING)
EMPTY = Side("empty Python source and sink", "ottla-bench-empty", {}, {})
PLAIN_TUNED = TUNED._replace(title="connector, tuned, plain Spark", plain_session=True)
PLAIN_DEFAULT = DEFAULT._replace(title="connector, as it comes, plain Spark", plain_session=True)
WHOLE = "triggerExecution"
# In their order; what is left of the whole goes between them.
PHASES = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets")


class Floor(NamedTuple):
    p50_ms: float
    # Of the processors, in all processes, the start of the query included.
    cpu_ms: float
    phases_ms: Mapping[str, float]


def floor_rows(bench: Workbench) -> list[Row]:
    from ottla.bench.spark.empty import EmptySource

    bench.spark.dataSource.register(EmptySource)
    batches = bench.scaled(BATCHES, least=5)
    source = bench.topic("small")
    records = (batches + WARM_UP_BATCHES) * BATCH_RECORDS
    empty_side = EMPTY._replace(read={"batches": str(batches + WARM_UP_BATCHES)})
    bench.write(OURS, PLAIN.frame(bench.spark, records, PARTITIONS), source)
    sides = (
        *(PLAIN_SINK, ONCE, SHARED, SHARED_ONCE, empty_side),
        *(TUNED, DEFAULT, PLAIN_TUNED, PLAIN_DEFAULT),
    )
    return rows_of(_floors(bench, source, batches, sides), batches)


def rows_of(found: Sequence[Floor], batches: int) -> list[Row]:
    ours, once, shared, shared_once, empty, tuned, default, plain_tuned, plain_default = found
    # Waiting for more records (linger.ms) is for throughput: the faster of the two is the peer.
    plain = min(plain_tuned, plain_default, key=_p50)
    peer = min(tuned, default, key=_p50)
    return [
        _row(f"micro-batch of {BATCH_RECORDS} records, p50 of {batches}", ours, plain, FLOOR_GOAL),
        _row("  exactly once (connector: at least once)", once, plain, ONCE_GOAL),
        _row("  with minRecordsPerPartition", shared, plain, None),
        _row("  with minRecordsPerPartition, exactly once", shared_once, plain, None),
        _row("  beside the connector with the settings of session()", ours, peer, None),
        _row("  the same, exactly once", once, peer, None),
        _row("  the same, with minRecordsPerPartition", shared, peer, None),
        _row("  an empty Python source and sink: what is Spark's", empty, peer, None),
        *(
            Row(f"  {phase}, ours and plain", ours.phases_ms[phase], plain.phases_ms[phase], "ms")
            for phase in PHASES
        ),
        *(
            Row(
                f"  {phase}, empty and session()",
                empty.phases_ms[phase],
                peer.phases_ms[phase],
                "ms",
            )
            for phase in PHASES
        ),
        Row("  processors' time of all processes", ours.cpu_ms, plain.cpu_ms, "ms"),
        Row("  processors' time, exactly once", once.cpu_ms, plain.cpu_ms, "ms"),
        Row("  processors' time, connector with session()", ours.cpu_ms, peer.cpu_ms, "ms"),
    ]


def _p50(floor: Floor) -> float:
    return floor.p50_ms


def _row(work: str, ours: Floor, peer: Floor, goal: float | None) -> Row:
    return Row(
        work,
        ours.p50_ms,
        peer.p50_ms,
        "ms",
        "" if goal is None else f"≤ {goal:g}x of its time",
        None if goal is None else ours.p50_ms <= goal * peer.p50_ms,
    )


def _floors(bench: Workbench, source: str, batches: int, sides: Sequence[Side]) -> list[Floor]:
    """In turns, as the other rows; the first round of each is not counted."""
    times: dict[str, list[Mapping[str, float]]] = {side.title: [] for side in sides}

    def run(side: Side) -> Taken:
        target = bench.topic("copied")
        with bench.folder("floor") as folder:
            taken = bench.timed(
                lambda: times[side.title].extend(
                    micro_batches(_copy(bench, side, source, target, folder))[WARM_UP_BATCHES:]
                )
            )
        bench.delete(target)
        return taken

    taken = bench.in_turns(run, ROUNDS, sides)
    return [
        floor_of(
            times[side.title][-ROUNDS * batches :],
            1000 * cost.cpu_s / (batches + WARM_UP_BATCHES),
        )
        for side, cost in zip(sides, taken, strict=True)
    ]


def floor_of(batches: Sequence[Mapping[str, float]], cpu_ms: float) -> Floor:
    """The medians, of each phase by itself."""
    phases = {
        name: statistics.median(times.get(name, 0.0) for times in batches)
        for name in (WHOLE, *PHASES)
    }
    return Floor(phases.pop(WHOLE), cpu_ms, phases)


def _copy(bench: Workbench, side: Side, source: str, target: str, folder: Path) -> StreamingQuery:
    return (
        bench.stream(side, source, maxOffsetsPerTrigger=str(BATCH_RECORDS))
        .select("key", "value")
        .writeStream.format(side.format)
        .option("kafka.bootstrap.servers", bench.servers)
        .option("checkpointLocation", str(folder))
        .options(**side.write, topic=target)
        .trigger(availableNow=True)
        .start()
    )


def micro_batches(query: StreamingQuery) -> list[Mapping[str, float]]:
    """Milliseconds of those that had records, by phase."""
    if not query.awaitTermination(QUERY_TIMEOUT_S):
        query.stop()
        raise OttlaError(f"a query of small micro-batches was not done in {QUERY_TIMEOUT_S} s")
    return [
        {phase: float(took) for phase, took in progress["durationMs"].items()}
        for progress in query.recentProgress
        if progress["numInputRows"]
    ]
