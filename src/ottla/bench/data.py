"""`ottla bench data`: records in and out, beside Apache Kafka 4.1 on the same machine.

Both sides run at the same time and get the same work from the same clients in turn, so that
whatever the machine does meanwhile meets both. A round that warms up is not counted. The result of
a row is the median of its rounds; CPU is that of the brokers (and the store) alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ottla.bench import data_cases
from ottla.bench.connections.cases import CASES as CONNECTION_CASES
from ottla.bench.data_cases import Case, Sample
from ottla.bench.data_sides import PEER_JARS, DataSide, KraftData, OttlaData
from ottla.bench.groups.cases import CASES as GROUP_CASES
from ottla.bench.reads.cases import CASES as READ_CASES
from ottla.bench.table import Row, chosen_names, exit_code, print_rows
from ottla.errors import OttlaError
from ottla.testing.java import missing_reason

CASES: tuple[Case, ...] = (
    *data_cases.CASES,
    *CONNECTION_CASES,
    *GROUP_CASES,
    *READ_CASES,
)
ALL = tuple(case.key for case in CASES)


def main(
    output: str = "text",
    only: Sequence[str] = (),
    scale: float = 1.0,
    plot: Path | None = None,
) -> int:
    rows, failures = run(only, scale)
    title = "Data plane, peer: Apache Kafka 4.1 (KRaft)"
    if scale != 1:
        title += f", at {scale:g} of the size"
    print_rows(rows, output, title)
    if plot is not None:
        from ottla.bench.data_plot import draw

        plot.write_text(draw(rows, title))
    # Goals are meant for the full size.
    missed = exit_code(rows) if scale == 1 else 0
    return 1 if failures else missed


def chosen(only: Sequence[str]) -> list[Case]:
    """In the order of the table; raises OttlaError for an unknown name."""
    wanted = chosen_names(only, ALL)
    return [case for case in CASES if case.key in wanted]


def run(only: Sequence[str] = (), scale: float = 1.0) -> tuple[list[Row], int]:
    """The rows, and how many pieces of work could not be measured: the others stay worth it."""
    reason = missing_reason(PEER_JARS)
    if reason is not None:
        # The clients come out of the same jars.
        raise OttlaError(reason)
    rows: list[Row] = []
    failures = 0
    for case in chosen(only):
        print(f"measuring {case.key} …", file=sys.stderr)
        try:
            ours, peer = measure(case, scale)
        except (OttlaError, OSError) as error:
            print(f"{case.key} could not be measured: {error}", file=sys.stderr)
            failures += 1
        else:
            rows += case.rows(scale, ours, peer)
    return rows, failures


def measure(case: Case, scale: float) -> tuple[Sample, Sample]:
    with ExitStack() as stack:
        sides: list[DataSide] = [
            stack.enter_context(kind(case.brokers, case.overrides, tls=case.tls))
            for kind in (OttlaData, KraftData)
        ]
        for side in sides:
            case.prepare(side, scale)
        samples: list[list[Sample]] = [[], []]
        for number in range(case.rounds):
            for side, taken in zip(sides, samples, strict=True):
                # What one side left to be written must not slow the other.
                os.sync()
                taken.append(case.measure(side, scale, number))
        return case.combine(samples[0]), case.combine(samples[1])
