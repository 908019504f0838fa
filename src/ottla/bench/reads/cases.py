"""The rows of `ottla bench data` on reads: ten consumers of one partition, and one that reads old
records beside one that reads new ones."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from ottla.bench import data_clients
from ottla.bench.data_cases import Case, Sample, at_least, at_most, scaled
from ottla.bench.data_clients import ClientFailed, Load, run_apart
from ottla.bench.data_sides import DataSide
from ottla.bench.reads.scan import Scanned
from ottla.bench.table import Row
from ottla.bench.topic_sides import Work
from ottla.testing.page_cache import resident_pages, uncache

READERS = 10
FANOUT_RECORDS = 1_000_000
FETCH_BYTES = 1024 * 1024
PASSES = 2
# Old records: enough of them that the kernel's own habits show.
OLD_RECORDS, OLD_RECORD_BYTES = 600_000, 1_000
SEGMENT_BYTES = 64 * 1024 * 1024
HOT_RATE, HOT_S = 500, 10
TIMEOUT_S = 300.0
_PAGES_PER_MB = 256


def scan(side: DataSide, topic: str, *, consumers: int, passes: int) -> Scanned:
    orders = {
        "topic": topic,
        "consumers": consumers,
        "fetch_bytes": FETCH_BYTES,
        "passes": passes,
    }
    return Scanned(*run_apart(side, "ottla.bench.reads.scan", orders, TIMEOUT_S))


class Fanout(Case):
    """Ten consumers read the same partition at the same time, each all of it."""

    key = "fanout"
    topic = "read-by-many"

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([self.topic], 1)
        load = Load(scaled(FANOUT_RECORDS, scale))
        data_clients.produce(side.bootstrap_servers, self.topic, load)
        scan(side, self.topic, consumers=READERS, passes=1)

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        found = scan(side, self.topic, consumers=READERS, passes=PASSES)
        usage = side.usage()
        values = (found.megabytes_per_s, found.cpu_us, found.own_share)
        return Sample(values, usage.cpu_s, usage.memory_mb)

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        (rate, cpu, share), (their_rate, their_cpu, their_share) = ours.values, peer.values
        return [
            Row(
                f"{READERS} consumers of one partition, fetches of 1 MiB",
                rate,
                their_rate,
                "MB/s",
                at_least(1),
                rate >= their_rate,
                higher_is_better=True,
            ),
            Row("  broker CPU of a MB", cpu, their_cpu, "µs", at_most(1), cpu <= their_cpu),
            Row("  the readers' share of a core", share, their_share, ""),
            Row("  resident memory", ours.memory_mb, peer.memory_mb, "MB"),
        ]


class Cold(Case):
    """Records that are read as they come, while somebody reads others from the disk."""

    key = "cold"
    overrides: ClassVar[Mapping[str, str]] = {"log.segment.bytes": str(SEGMENT_BYTES)}
    old, hot = "old", "hot"

    def prepare(self, side: DataSide, scale: float) -> None:
        side.start()
        with Work(side.bootstrap_servers) as work:
            work.create([self.old, self.hot], 1)
        load = Load(scaled(OLD_RECORDS, scale), OLD_RECORD_BYTES)
        data_clients.produce(side.bootstrap_servers, self.old, load)
        os.sync()
        self._latency(side, scale / 4)

    def measure(self, side: DataSide, scale: float, number: int) -> Sample:
        with self._scanning(side) as left_mb:
            latencies = self._latency(side, scale)
        usage = side.usage()
        return Sample((*latencies, sum(left_mb) / len(left_mb)), usage.cpu_s, usage.memory_mb)

    def _latency(self, side: DataSide, scale: float) -> data_clients.Latencies:
        records = scaled(HOT_RATE * HOT_S, scale, least=500)
        return data_clients.end_to_end(side.bootstrap_servers, self.hot, HOT_RATE, records)

    @contextmanager
    def _scanning(self, side: DataSide) -> Iterator[list[float]]:
        """Old records are read again and again, each time from the disk; gives how many MB of
        them the page cache still had after each time."""
        left_mb: list[float] = []
        failures: list[Exception] = []
        done = threading.Event()

        def work() -> None:
            try:
                while not done.is_set() or not left_mb:
                    # The last segment is not old: it is written to.
                    *sealed, _ = side.logs(self.old)
                    for path in sealed:
                        uncache(path)
                    scan(side, self.old, consumers=1, passes=0)
                    left_mb.append(
                        sum(sum(resident_pages(path)) for path in sealed) / _PAGES_PER_MB
                    )
            except Exception as error:  # told to whoever waits
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield left_mb
        finally:
            done.set()
            thread.join(TIMEOUT_S)
        if failures:
            raise ClientFailed(f"the scan failed: {failures[0]}")

    def rows(self, scale: float, ours: Sample, peer: Sample) -> list[Row]:
        (p50, p99, left), (their_p50, their_p99, their_left) = ours.values, peer.values
        return [
            Row(
                f"{HOT_RATE:,} records/s beside a scan of old ones, p50",
                p50,
                their_p50,
                "ms",
                at_most(1),
                p50 <= their_p50,
            ),
            Row("  p99", p99, their_p99, "ms", at_most(1), p99 <= their_p99),
            Row("  what the scan leaves in the page cache", left, their_left, "MB"),
            Row("  resident memory", ours.memory_mb, peer.memory_mb, "MB"),
        ]


CASES: tuple[Case, ...] = (Fanout(), Cold())
