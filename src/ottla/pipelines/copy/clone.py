"""A topic cloned: planned, copied, checked, given its configs, its groups carried over.

`plan` only asks; `Clone.run` does. Every step may be done twice, so that a clone that was cut short
anywhere is gone on with by the same call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.client.admin.client import Admin
from ottla.errors import KafkaError
from ottla.pipelines import topics
from ottla.pipelines.copy import clone_groups, clone_topics, guess, planning
from ottla.pipelines.copy.clone_report import CloneReport
from ottla.pipelines.copy.clone_topics import TopicFacts
from ottla.pipelines.copy.copier import Copier, CopyJob, Progress
from ottla.pipelines.copy.ends import CopyError, Endpoint, Topic
from ottla.pipelines.copy.state import Bounds, CopyState, FinalConfigs, Finished
from ottla.pipelines.copy.translation import Translation
from ottla.runtime import Clock, system_runtime
from ottla.topics import names
from ottla.topics.partitioners import Partitioner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.copy.folder import CopyFolder

T = TypeVar("T")

_POLL_S = 0.2


@dataclass(frozen=True)
class CloneSpec:
    """What was asked for; None is what nobody said. `starting` and `ending` are the times as they
    were typed, by which a clone that goes on is known; the times themselves where they are empty.
    """

    source: Endpoint
    target: Endpoint
    partitions: int | None = None
    replication_factor: int | None = None
    partitioner: Partitioner | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    with_groups: bool = False
    check: bool = True
    starting: str = ""
    ending: str = ""

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.from_ms, self.to_ms)


class ClonePlan(NamedTuple):
    """`target` is None for a topic that is still to be made, `final` what configs it is to have;
    `until` are the ends of the source."""

    source: TopicFacts
    target: TopicFacts | None
    partitions: int
    replication_factor: int
    partitioner: Partitioner | None
    begin: dict[int, int]
    until: dict[int, int]
    resumes: bool
    groups: list[str]
    final: FinalConfigs

    @property
    def offsets(self) -> int:
        return planning.lag(self.begin, self.until)

    def lines(self, spec: CloneSpec) -> Iterator[str]:
        name = spec.target.topic
        if self.resumes:
            yield f"goes on with the clone {name} that was begun before"
        elif self.target is not None:
            yield f"topic {name} is there and empty: it is filled"
        else:
            shape = f"{_count(self.partitions, 'partition')}, "
            shape += _count(self.replication_factor, "replica")
            yield f"topic {name} is made: {shape}"
        for key, value in sorted(self.source.configs.items()):
            yield f"  {key}={value}"
        how = "each record stays in its partition"
        if self.partitioner is not None:
            how = f"keys by {self.partitioner}, records without a key from partition p to p mod N"
        yield f"{_count(self.source.partitions, 'partition')} -> {self.partitions}: {how}"
        yield f"{self.offsets:,} offsets of {spec.source.topic} are copied"
        if spec.with_groups:
            yield f"groups: {', '.join(self.groups) or 'none has positions there'}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plan(spec: CloneSpec, folder: CopyFolder) -> ClonePlan:
    """Changes nothing. Raises CopyError with the reason why it cannot be done."""
    try:
        names.validate(spec.target.topic)
    except KafkaError as error:
        raise CopyError(str(error)) from None
    if names.is_reserved(spec.target.topic):
        raise CopyError(f"{spec.target.topic} is a name that brokers keep for themselves")
    source = _with(spec.source, lambda admin: clone_topics.look_twice(admin, spec.source.topic))
    if source is None:
        raise CopyError(f"there is no topic {spec.source.topic} at {spec.source.bootstrap}")
    target = _with(spec.target, lambda admin: clone_topics.look(admin, spec.target.topic))
    if target is not None and target.topic_id == source.topic_id:
        raise CopyError(f"{spec.target.topic} is the topic itself: a clone needs another name")
    partitions = spec.partitions or source.partitions
    known = _known(spec, folder, target)
    if target is not None:
        _check_shape(spec, source, target, partitions, known)
    partitioner = _partitioner(spec, known, moves=partitions != source.partitions)
    bounds = spec.bounds if known is None else known.bounds
    asked = Topic(spec.source.options("read_committed"), spec.source.topic)
    try:
        asked.look()
        begin = asked.earliest() if bounds.from_ms is None else asked.at_time(bounds.from_ms)
        until = asked.latest() if bounds.to_ms is None else asked.at_time(bounds.to_ms)
        if known is None and spec.partitioner is None and partitioner is not None:
            _check_guess(asked, partitioner)
    finally:
        asked.close()
    replicas = spec.replication_factor or source.replication_factor
    if target is None:
        name = spec.target.topic
        _with(
            spec.target,
            lambda admin: clone_topics.make(admin, name, partitions, replicas, dry_run=True),
        )
    groups: dict[str, dict[int, int]] = {}
    if spec.with_groups:
        groups = _with(spec.source, lambda admin: clone_groups.committed(admin, spec.source.topic))
    return ClonePlan(
        source,
        target,
        partitions,
        replicas,
        partitioner,
        begin,
        {p: max(end, begin[p]) for p, end in until.items()},
        known is not None,
        sorted(groups),
        final_configs(source, target, folder.configs()),
    )


def _known(spec: CloneSpec, folder: CopyFolder, target: TopicFacts | None) -> CopyState | None:
    """What the clone that is gone on with knows; None for one that begins."""
    if target is None:
        return None
    known = folder.state()
    if known is not None and known.identity.target_id == target.topic_id:
        return known
    name, finished = spec.target.topic, folder.finished()
    if finished is not None and finished.target_id == target.topic_id and target.holds_records:
        raise CopyError(
            f"the clone {name} of {finished.source_topic} is finished, with {finished.records:,} "
            f"records: for what has come since clone into another name, or delete {name} first"
        )
    if target.holds_records:
        raise CopyError(
            f"the topic {name} exists and holds records, and {folder.path} knows of "
            "no clone of that name to go on with: clone into another name, or delete it first"
        )
    return None


def _check_shape(
    spec: CloneSpec,
    source: TopicFacts,
    target: TopicFacts,
    partitions: int,
    known: CopyState | None,
) -> None:
    name = spec.target.topic
    stays = known is not None and not known.identity.partitioner
    if stays and source.partitions != target.partitions:
        # Each record stays in its partition, and there is none for those of a new one.
        raise CopyError(
            f"{spec.source.topic} has {source.partitions} partitions now, and {name} was begun "
            f"with {target.partitions}: clone into another name, or delete {name} first"
        )
    if target.partitions != partitions:
        raise CopyError(
            f"the topic {name} exists with {target.partitions} partitions, not {partitions}: "
            f"delete it, or say --partitions {target.partitions}"
        )


def _partitioner(spec: CloneSpec, known: CopyState | None, *, moves: bool) -> Partitioner | None:
    """A clone that is gone on with keeps its own: the source may have grown since."""
    if spec.partitioner is not None:
        return spec.partitioner
    if known is not None:
        name = known.identity.partitioner
        return Partitioner(name) if name else None
    return Partitioner.MURMUR2 if moves else None


def final_configs(
    source: TopicFacts, target: TopicFacts | None, noted: FinalConfigs | None
) -> FinalConfigs:
    """Those of the source for a topic that the clone makes, its own for one that was there. Where
    an earlier run has noted which of the two it is, it may have given the topic others since, for
    the time of the copy."""
    if target is None:
        return FinalConfigs(source.configs, is_made=True)
    if noted is None or not _is_about(noted, target):
        return FinalConfigs(target.configs, target.topic_id)
    if noted.is_made:
        return FinalConfigs(source.configs, target.topic_id, is_made=True)
    return noted


def _is_about(noted: FinalConfigs, target: TopicFacts) -> bool:
    if noted.target_id or not noted.is_made:
        return noted.target_id == target.topic_id
    # It was about to be made, without configs: nobody has seen it since.
    return not target.configs


def check_partitioner(source: Endpoint, partitioner: Partitioner) -> None:
    """Raises CopyError where the topic's keys lie as another one puts them."""
    asked = Topic(source.options("read_committed"), source.topic)
    try:
        asked.look()
        _check_guess(asked, partitioner)
    finally:
        asked.close()


def _check_guess(source: Topic, partitioner: Partitioner) -> None:
    count = len(source.partitions)
    if count < 2:
        return
    better = guess.better_guess(partitioner, guess.keys_of(source), count)
    if better is not None:
        raise CopyError(
            f"the keys of {source.name} lie where {better} puts them, not {partitioner}: say "
            f"--partitioner {better} (or {partitioner}, where later producers use that)"
        )


def _with(end: Endpoint, work: Callable[[Admin], Awaitable[T]]) -> T:
    try:
        return topics.with_admin(end.bootstrap, end.kafka, work)
    except OSError as error:
        raise CopyError(f"{end.bootstrap} cannot be reached: {error}") from None


class Clone:
    """One run of it. `stop` may be called from a signal handler: `run` then raises CopyError, and
    another run goes on."""

    def __init__(
        self,
        spark: SparkSession,
        spec: CloneSpec,
        planned: ClonePlan,
        folder: CopyFolder,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._spark = spark
        self._spec = spec
        self._plan = planned
        self._folder = folder
        self._clock = clock or system_runtime().clock
        self._stopping = False
        # In a word or two, for whoever watches; nothing while records are copied.
        self.stage = ""

    def stop(self) -> None:
        self._stopping = True

    def run(self, watch: Callable[[Progress], None] = lambda progress: None) -> CloneReport:
        spec, planned = self._spec, self._plan
        began_s = self._now_s()
        known = self._prepare()
        job = CopyJob(
            spec.source,
            spec.target,
            planned.partitioner,
            planned.begin,
            spec.starting or _bound(spec.from_ms),
            spec.ending or _bound(spec.to_ms),
            bounds=spec.bounds,
        )
        copier = Copier(self._spark, job, self._folder, clock=self._clock)
        try:
            copier.start(until=planned.until)
            while not copier.wait(_POLL_S):
                watch(copier.progress())
                self._heed_stop(copier)
            state = copier.finish()
            watch(copier.progress())
            seconds = self._now_s() - began_s
            self.stage = "reading back"
            checked = copier.check(lambda: self._heed_stop(copier)) if spec.check else None
            self.stage = "groups and configs"
            self._heed_stop(copier)
            groups = self._carry(copier) if spec.with_groups else None
            self._heed_stop(copier)
            # Last of all: from then on records may age out, and nobody could go on.
            left_out = self._give_configs(known)
            if checked is None or checked.is_sound:
                target_id = state.identity.target_id
                self._folder.finish(Finished(spec.source.topic, target_id, state.tally.records))
            else:
                self._folder.forget()
        finally:
            copier.close()
        return CloneReport(
            spec.source.topic,
            spec.target.topic,
            planned.partitioner or "",
            seconds,
            state.tally,
            state.keys.estimate(),
            {p: state.records_in(p) for p in range(planned.partitions)},
            planned.source.partitions,
            state.aged_out,
            checked,
            groups,
            left_out,
        )

    def _heed_stop(self, copier: Copier) -> None:
        if self._stopping:
            copier.pause()
            raise CopyError(
                f"stopped after {copier.state.tally.records:,} records: the same command goes on "
                "from there"
            )

    def _prepare(self) -> frozenset[str]:
        """Makes the target, and notes beforehand what configs it is to have."""
        spec, planned = self._spec, self._plan
        name = spec.target.topic
        if not planned.resumes:
            self._folder.open()
            self._folder.begin_anew(planned.final)
            self._folder.close()

        async def prepare(admin: Admin) -> frozenset[str]:
            if planned.target is None:
                await clone_topics.make(admin, name, planned.partitions, planned.replication_factor)
            await topics.await_led(admin, [name])
            facts = await clone_topics.look_twice(admin, name)
            if facts is None:
                raise CopyError(f"the topic {name} does not appear")
            noted = self._folder.configs() or planned.final
            final = await clone_topics.acceptable(admin, name, noted.values, facts.known_names)
            self._folder.write_configs(FinalConfigs(final, facts.topic_id, noted.is_made))
            await clone_topics.hold_back(admin, name, final, facts.known_names)
            return facts.known_names

        return _with(spec.target, prepare)

    def _give_configs(self, known: frozenset[str]) -> list[str]:
        """Those of the source that the target did not get."""
        final = (self._folder.configs() or self._plan.final).values
        name = self._spec.target.topic
        _with(self._spec.target, lambda admin: clone_topics.give_configs(admin, name, final, known))
        wanted = self._plan.source.configs if self._plan.final.is_made else {}
        return [f"{key}={value}" for key, value in sorted(wanted.items()) if key not in final]

    def _carry(self, copier: Copier) -> list[clone_groups.GroupOutcome]:
        spec = self._spec
        positions = _with(
            spec.source, lambda admin: clone_groups.committed(admin, spec.source.topic)
        )
        translation = Translation(copier.state.spans(), copier.target_ends())
        return _with(
            spec.target,
            lambda admin: clone_groups.carry(admin, spec.target.topic, positions, translation),
        )

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000


def _bound(moment_ms: int | None) -> str:
    return "" if moment_ms is None else str(moment_ms)


def cluster_id(end: Endpoint) -> str:
    """Raises CopyError where nobody answers."""

    async def ask(admin: Admin) -> str:
        return (await admin.describe_cluster()).cluster_id or ""

    return _with(end, ask)
