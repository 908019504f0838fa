"""The driver of a copy: micro-batches that follow the source, one after the other.

    copier = Copier(spark, job, CopyFolder(disk, path))
    copier.start()                        # or goes on where the folder's checkpoint ends
    while copier.progress().lag > 1000: ...
    # whoever resizes fences writes on the source now, and asks for its end offsets
    state = copier.finish(end_offsets)    # exactly up to there
    check = copier.check()                # optional: reads the target back
    copier.close()

After `finish`, `Translation(state.spans(), copier.target_ends())` carries the positions of groups
over. `abort` ends a copy at any moment before and forgets its checkpoint; the target is the
caller's to delete. All other calls but `progress` belong to one thread. Nothing that the target
ever holds has to be taken back, so its readers need no isolation level.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipelines.copy import planning, tasks
from ottla.pipelines.copy.ends import CopyError, Endpoint, Topic
from ottla.pipelines.copy.hands import Hands
from ottla.pipelines.copy.parts import Ends, Found, RangePart, RangeResult, ScanPart, ScanResult
from ottla.pipelines.copy.placement import Placement
from ottla.pipelines.copy.state import BadState, Bounds, CopyState, Identity, UnderWay
from ottla.pipelines.dialects import parallelism, renew_workers, with_own_views
from ottla.pipelines.report import reason_of
from ottla.runtime import Clock, system_runtime
from ottla.spark.errors import SourceError
from ottla.spark.source.offsets import OffsetRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.copy.folder import CopyFolder
    from ottla.pipelines.copy.order import OrderDigest
    from ottla.topics.partitioners import Partitioner

logger = logging.getLogger("ottla.pipelines.copy")

# A micro-batch is tried so often without a record more; each attempt goes on where the last one was
# cut short.
_ATTEMPTS = 5
_RETRY_PAUSE_S = 0.5
_IDLE_PAUSE_S = 0.1
# Spark ends the tasks of a job that failed within four seconds.
_STRAYS_S = 5.0
# An open transaction holds back what was asked for; brokers end it sooner or later.
_PATIENCE_S = 60.0
_TASKS_PER_CORE = 2
_MAX_PAIRS = 1_000_000


@dataclass(frozen=True)
class CopyJob:
    """`partitioner` None: every record stays in its partition. `starting` and `ending` name bounds
    that the checkpoint has to agree with, and `bounds` is what they are for a new copy; `begin`
    says at which offsets partitions begin that it does not know yet, the oldest ones where it does
    not. `into_empty`: a new copy needs a target without records."""

    source: Endpoint
    target: Endpoint
    partitioner: Partitioner | None
    begin: Mapping[int, int] | None = None
    starting: str = ""
    ending: str = ""
    into_empty: bool = False
    bounds: Bounds = field(default_factory=Bounds)


class Progress(NamedTuple):
    """`records` and `batches` of this copy, earlier runs included; `lag` in offsets; `retries` of
    micro-batches in this run."""

    records: int
    records_per_s: float
    lag: int
    batches: int
    retries: int = 0


class Check(NamedTuple):
    """`differing` are pairs of source and target partition whose records, or their order, are not
    what was copied; `foreign` records were written by others."""

    records: int
    differing: list[tuple[int, int]]
    foreign: int

    @property
    def is_sound(self) -> bool:
        return not self.differing


class Copier:
    """One copy, in the hands of the caller; the module's docstring shows how it is used."""

    def __init__(
        self,
        spark: SparkSession,
        job: CopyJob,
        folder: CopyFolder,
        *,
        clock: Clock | None = None,
        first_batch: int = planning.FIRST_BATCH,
        by_hand: int = 0,
        retry_pause_s: float = _RETRY_PAUSE_S,
    ) -> None:
        """Micro-batches of at most `by_hand` offsets are copied without Spark. Raises OptionError
        for settings that cannot be."""
        self._retry_pause_s = retry_pause_s
        # Its jobs can be ended from another thread, and those of others go on. (Tags will not do:
        # beside a JVM, `interruptTag` knows only those of the thread that asks.)
        self._spark = with_own_views(spark)
        self._job = job
        self._folder = folder
        self._clock = clock or system_runtime().clock
        self._source = Topic(job.source.options("read_committed"), job.source.topic)
        self._target = Topic(job.target.options("read_uncommitted"), job.target.topic)
        self._size = first_batch
        self._by_hand = by_hand
        self._hands: Hands | None = None
        # What waits now is copied at once, without a job of Spark's.
        self.is_close = False
        self._until: dict[int, int] | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._rates: deque[tuple[float, int]] = deque(maxlen=8)
        self._lag = 0
        self._retries = 0
        # Records of the micro-batch that were there when somebody looked.
        self._written = 0
        self._opened = False
        self.resumed = False

    def start(self, until: Mapping[int, int] | None = None) -> None:
        """Raises CopyError or BadState where it cannot begin; from then on `finish` does."""
        self._folder.open()
        self._opened = True
        self._source.look()
        self._target.look()
        if len(self._source.partitions) * len(self._target.partitions) > _MAX_PAIRS:
            raise CopyError(
                f"{len(self._source.partitions)} times {len(self._target.partitions)} partitions "
                f"are more than the {_MAX_PAIRS} pairs that a copy keeps account of"
            )
        self.state = self._first_state()
        self._until = None if until is None else dict(until)
        self._ends = self._make_ends()
        self._thread = threading.Thread(target=self._run, name="ottla-copy", daemon=True)
        self._rates.append((self._now_s(), self.state.tally.records))
        self._thread.start()

    def progress(self) -> Progress:
        (began, before), (ended, after) = self._rates[0], self._rates[-1]
        rate = (after - before) / (ended - began) if ended > began else 0.0
        records, batches = self.state.tally.records, self.state.batch
        return Progress(records, rate, self._lag, batches, self._retries)

    def lag_now(self) -> int:
        """Asks the source; that of `progress` is from before the last micro-batch."""
        return planning.lag(self.state.positions, self._source.latest())

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended by then: it failed, or has reached what `start` or `finish` said."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.is_running

    def finish(self, end_offsets: Mapping[int, int] | None = None) -> CopyState:
        """Returns when everything below the offsets is copied, and nothing else; those of `start`
        where none are given."""
        if end_offsets is not None:
            beyond = [p for p, end in end_offsets.items() if self.state.positions.get(p, 0) > end]
            if beyond:
                raise CopyError(
                    f"partition {beyond[0]} was copied beyond the end that was asked for"
                )
            self._until = dict(end_offsets)
            self._wake.set()
        if self._until is None and self._failure is None:
            raise CopyError("a copy that follows its source ends at given offsets only")
        while not self.wait(1.0):
            pass
        if self._failure is not None:
            raise self._failure
        return self.state

    def abort(self) -> None:
        """The checkpoint is forgotten."""
        self.pause()
        if self._opened:
            self._folder.forget()

    def pause(self) -> None:
        """Ends here; the checkpoint stays, and another `Copier` goes on with it."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None and self._thread.is_alive():
            if self._hands is not None:
                self._hands.close()
            tasks.end_thread(self._spark, self._thread)

    def close(self) -> None:
        self.pause()
        if self._hands is not None:
            self._hands.close()
        self._source.close()
        self._target.close()
        self._folder.close()

    def source_ends(self) -> dict[int, int]:
        return self._source.latest()

    def target_ends(self) -> dict[int, int]:
        return self._target.latest()

    def check(self, watch: Callable[[], None] = lambda: None) -> Check:
        """Reads the target back. The records of each pair of partitions, in their order, make one
        number (`order.py`) there and one where they were read: they have to be the same. `watch` is
        called now and then, and ends the check by what it raises."""
        starts, ends = self.state.target_starts, self._target.latest()
        try:
            results = tasks.run_watched(
                self._spark, lambda: self._scan(starts, ends, with_hashes=False), watch
            )
        except CopyError:
            raise
        except Exception as error:  # whatever Spark raises
            where = f"{self._target.name} cannot be read back"
            raise CopyError(f"{where}: {reason_of(error)}") from error
        found = _orders(results)
        wanted = {key: pair.order for key, pair in self.state.pairs.items()}
        records = sum(order.records for order in found.values())
        foreign = sum(result.foreign for result in results)
        return Check(records, _differing(found, wanted), foreign)

    def _first_state(self) -> CopyState:
        identity = Identity(
            self._source.cluster_id(),
            self._source.name,
            self._source.topic_id,
            self._target.cluster_id(),
            self._target.name,
            self._target.topic_id,
            len(self._target.partitions),
            self._job.partitioner or "",
            self._job.starting,
            self._job.ending,
        )
        known = self._folder.state()
        if known is not None:
            differences = identity.differences(known.identity)
            if differences:
                raise BadState(
                    f"{self._folder.path} is the checkpoint of another copy: it has "
                    f"{', '.join(differences)}"
                )
            self.resumed = True
            return known
        begin = self._source.earliest() | dict(self._job.begin or {})
        target_ends = self._target.latest()
        if self._job.into_empty and any(target_ends.values()):
            raise CopyError(
                f"{self._target.name} holds records of a copy that {self._folder.path} does not "
                "know of: go on where that was begun, or give it up"
            )
        state = CopyState(identity, begin, target_ends, dict(begin), bounds=self._job.bounds)
        self._folder.write_state(state)
        return state

    def _make_ends(self) -> Ends:
        sources, targets = len(self._source.partitions), len(self._target.partitions)
        return Ends(
            self._source.options,
            self._target.options,
            self._target.connect,
            self._target.name,
            self._target.topic_id,
            Placement(self._job.partitioner, sources, targets),
            self._target.batch_bytes(),
        )

    def _run(self) -> None:
        try:
            under_way = self._folder.under_way(self.state)
            if under_way is not None:
                self._copy(under_way, look=True)
            self._follow()
        except BaseException as error:
            if not self._stop.is_set():
                self._failure = error if isinstance(error, Exception) else CopyError(repr(error))

    def _follow(self) -> None:
        stuck_since_s: float | None = None
        while not self._stop.is_set():
            self._source.look()
            until, ends = self._until, self._source.latest()
            limits = ends if until is None else _least(ends, until)
            self._skip_aged_out(limits)
            self._lag = planning.lag(self.state.positions, ends if until is None else until)
            ranges = planning.cut(self.state.positions, limits, self._size)
            if ranges:
                stuck_since_s = None
                self._begin(ranges)
                continue
            self.is_close = self._by_hand > 0
            if until is not None and not self._lag:
                return
            stuck_since_s = stuck_since_s or self._now_s()
            if until is not None and self._now_s() - stuck_since_s > _PATIENCE_S:
                raise CopyError(
                    f"{self._lag} offsets of {self._source.name} cannot be read: a transaction is "
                    "open before them"
                )
            self._wake.wait(_IDLE_PAUSE_S)
            self._wake.clear()

    def _skip_aged_out(self, limits: Mapping[int, int]) -> None:
        """Retention may be faster; new partitions are begun."""
        begin = self._job.begin or {}
        for partition, earliest in self._source.earliest().items():
            first = max(earliest, begin.get(partition, earliest))
            at = self.state.positions.setdefault(partition, first)
            self.state.starts.setdefault(partition, first)
            bound = min(earliest, limits.get(partition, earliest))
            if at < bound:
                self.state.aged_out += bound - at
                self.state.positions[partition] = bound

    def _begin(self, ranges: dict[int, tuple[int, int]]) -> None:
        new = [partition for partition in ranges if partition not in self.state.producers]
        for partition in new:
            self.state.producers[partition] = self._target.new_producer()
        if new:
            # Before anything is written with them: they are how records are told apart.
            self._folder.write_state(self.state)
        under_way = UnderWay(self.state.batch + 1, ranges, self._target.latest())
        self._folder.write_under_way(under_way)
        began_s = self._now_s()
        records = self.state.tally.records
        self._written = 0
        self._copy(under_way, look=False)
        copied, seconds = self.state.tally.records - records, self._now_s() - began_s
        self._size = planning.next_size(self._size, copied, seconds)

    def _copy(self, under_way: UnderWay, *, look: bool) -> None:
        """One micro-batch, in as many attempts as it takes."""
        failures, there = 0, -1
        while True:
            try:
                if look and self._may_have_lost(under_way):
                    self._stop.wait(_STRAYS_S)
                found = self._found(under_way) if look else {}
                results = self._run_ranges(under_way, found)
                differing = self._not_there(under_way, results) if look else []
                break
            except Exception as error:
                # Tasks of an attempt that has failed go on for some seconds, those of a driver that
                # was killed to the end of their parts. As long as they get on, nothing is wrong.
                written = self._written
                failures, there = (1, written) if written > there else (failures + 1, there)
                if self._stop.is_set() or failures == _ATTEMPTS:
                    raise CopyError(reason_of(error)) from error
                logger.warning("micro-batch %d is tried again: %s", under_way.batch, error)
                renew_workers(self._spark, error)
                look = True
                self._retries += 1
                self._stop.wait(self._retry_pause_s * 2 ** (failures - 1))
                self._look_again()
        if differing:
            # Whoever goes on would take what is there for what was copied.
            self._folder.forget()
            source, target = differing[0]
            raise CopyError(
                f"{self._target.name}-{target} does not hold what was copied from "
                f"{self._source.name}-{source}: records went from there while two attempts wrote. "
                f"Delete {self._target.name} (of a resize: --abort) and begin anew"
            )
        self.state.absorb(under_way, results)
        self._folder.write_state(self.state)
        self._rates.append((self._now_s(), self.state.tally.records))

    def _may_have_lost(self, under_way: UnderWay) -> bool:
        """Whether another attempt may have read records that this one cannot, for they aged out or
        were compacted away. Theirs would then be the sequence numbers of others: a leader takes two
        batches of the same numbers for one, and has room for those that come behind ours. So nobody
        else may be writing any more."""
        earliest = self._source.earliest()
        has_aged_out = any(start < earliest[p] for p, (start, _) in under_way.ranges.items())
        return has_aged_out or self._source.compacts()

    def _not_there(self, under_way: UnderWay, results: list[RangeResult]) -> list[tuple[int, int]]:
        """Pairs of partitions in which the target has something else than what was sent: batches of
        another attempt were there when ours came, and looked the same to their leader."""
        found = self._scan(under_way.bases, self._target.latest(), with_hashes=False)
        sent = {(r.source, t): pair.order for r in results for t, pair in r.pairs.items()}
        return _differing(_orders(found), sent)

    def _look_again(self) -> None:
        """Raises CopyError where a topic is not what it was. Brokers may still be away."""
        try:
            self._source.look()
            self._target.look()
        except SourceError as error:
            logger.warning("the topics cannot be looked at: %s", error)

    def _run_ranges(
        self, under_way: UnderWay, found: Mapping[tuple[int, int], Found]
    ) -> list[RangeResult]:
        parts = self._parts(under_way, found)
        sizes = {partition: end - start for partition, (start, end) in under_way.ranges.items()}
        if self._by_hand and sum(sizes.values()) <= self._by_hand:
            if self._hands is None:
                self._hands = Hands(self._source.connect, self._target.connect)
            results = self._hands.run_ranges(self._ends, list(parts.values()))
            self.is_close = True
            return results
        self.is_close = False
        groups = planning.share_out(sizes, _TASKS_PER_CORE * parallelism(self._spark))
        shared = [[parts[partition] for partition in group] for group in groups]
        return tasks.run_ranges(self._spark, self._ends, shared)

    def _parts(
        self, under_way: UnderWay, found: Mapping[tuple[int, int], Found]
    ) -> dict[int, RangePart]:
        earliest = self._source.earliest()
        parts: dict[int, RangePart] = {}
        for partition, (start, end) in under_way.ranges.items():
            there = {t: one for (s, t), one in found.items() if s == partition}
            sequences = self.state.sequences(partition)
            for target, one in there.items():
                sequences[target] = (sequences.get(target, 0) + len(one.hashes) // 8) % (1 << 31)
            first = min(max(start, earliest[partition]), end)
            source = OffsetRange(self._source.name, self._source.topic_id, partition, first, end)
            parts[partition] = RangePart(source, self.state.producers[partition], sequences, there)
        return parts

    def _found(self, under_way: UnderWay) -> dict[tuple[int, int], Found]:
        """What attempts at this micro-batch have written, by pair of partitions."""
        results = self._scan(under_way.bases, self._target.latest(), with_hashes=True)
        found = {(s, r.target): found for r in results for s, found in r.found.items()}
        self._written = sum(len(one.hashes) // 8 for one in found.values())
        return found

    def _scan(
        self, starts: Mapping[int, int], ends: Mapping[int, int], *, with_hashes: bool
    ) -> list[ScanResult]:
        producers = {one.producer_id: s for s, one in self.state.producers.items()}
        name, topic_id = self._target.name, self._target.topic_id
        for partition, start in starts.items():
            if ends[partition] < start:
                raise CopyError(
                    f"{name}-{partition} ends at {ends[partition]} and had {start} records: it has "
                    "lost some, delete it and begin anew"
                )
        parts = {
            p: ScanPart(OffsetRange(name, topic_id, p, start, ends[p]), producers, with_hashes)
            for p, start in starts.items()
            if ends[p] > start
        }
        sizes = {p: ends[p] - starts[p] for p in parts}
        groups = planning.share_out(sizes, _TASKS_PER_CORE * parallelism(self._spark))
        return tasks.run_scans(self._spark, self._ends, [[parts[p] for p in g] for g in groups])

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000


def _orders(results: list[ScanResult]) -> dict[tuple[int, int], OrderDigest]:
    """By source partition and target partition."""
    return {(s, r.target): order for r in results for s, order in r.orders.items()}


def _differing(
    found: Mapping[tuple[int, int], OrderDigest], wanted: Mapping[tuple[int, int], OrderDigest]
) -> list[tuple[int, int]]:
    pairs = found.keys() | wanted.keys()
    return sorted(pair for pair in pairs if found.get(pair) != wanted.get(pair))


def _least(one: Mapping[int, int], other: Mapping[int, int]) -> dict[int, int]:
    """Only partitions that both have: the others are not asked for."""
    return {p: min(end, other[p]) for p, end in one.items() if p in other}
