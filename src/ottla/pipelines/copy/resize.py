"""A topic resized: its records copied into a shadow, then the name changes hands (ADR 53).

`Resize.run` may be cut short anywhere: the same call goes on with the shadow and the checkpoint
that are there. Nothing of the topic changes before the controller has been asked to finish.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ottla.client.admin.client import Admin
from ottla.client.admin.resizing import ResizeBegun, ResizeEnd
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.pipelines import topics
from ottla.pipelines.copy.clone_groups import GroupOutcome
from ottla.pipelines.copy.clone_report import CloneReport
from ottla.pipelines.copy.copier import Check, Copier, CopyJob, Progress
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.resize_steps import ResizeSteps, code_of
from ottla.pipelines.copy.translation import Translation
from ottla.runtime import Clock, system_runtime
from ottla.topics.partitioners import Partitioner
from ottla.types import format_topic_id

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.pipelines.copy.folder import CopyFolder

T = TypeVar("T")

_POLL_S = 0.05
# Of offsets: micro-batches of so many are copied by the driver itself, in a part of a second.
_BY_HAND = 20_000
# The fence comes when no more than this is left, or than is copied in this time.
_SMALL_LAG, _SMALL_LAG_S = 5_000, 0.25
# Within a second of the end for so long, and not closer: it will not get closer.
_CLOSER_WITHIN_S = 20.0
_FENCES = 10
_PAUSE_S = 1.0
# How long leaders, coordinators and the controller may be away before it is given up.
_PATIENCE_S = 90.0
# A fence that does not come about, or is lifted before the end: the topic serves, try another one.
_AGAIN = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_CONTROLLER,
    }
)


@dataclass(frozen=True)
class ResizeSpec:
    source: Endpoint
    partitions: int
    partitioner: Partitioner
    replication_factor: int = -1
    check: bool = True


@dataclass
class ResizeReport:
    copy: CloneReport
    fenced_s: float
    end: ResizeEnd
    retention_ms: int

    def lines(self) -> Iterator[str]:
        yield from self.copy.lines()
        yield f"the topic took no records for {self.fenced_s:.2f} s"
        if self.end.members:
            yield f"{self.end.members} members of groups join again"
        if self.retention_ms:
            yield "the old topic is in the trash (ottla topics --list-deleted)"
        if self.copy.tally.misplaced:
            yield (
                "producers choose partitions in another way: what they held at that moment may be "
                "in a partition where its key does not live"
            )
        yield "consumers by assign() have to be started again: their offsets are of the old topic"


def begin(spec: ResizeSpec, *, validate_only: bool = False) -> ResizeBegun:
    """Raises CopyError with the reason why it cannot be."""

    async def ask(admin: Admin) -> ResizeBegun:
        return await admin.begin_resize(
            spec.source.topic,
            spec.partitions,
            replication_factor=spec.replication_factor,
            partitioner=str(spec.partitioner),
            validate_only=validate_only,
        )

    return with_admin(spec.source, ask)


def abort(source: Endpoint) -> None:
    with_admin(source, lambda admin: admin.abort_resize(source.topic))


def with_admin(end: Endpoint, work: Callable[[Admin], Awaitable[T]]) -> T:
    try:
        return topics.with_admin(end.bootstrap, end.kafka, work)
    except KafkaError as error:
        raise CopyError(str(error)) from error
    except OSError as error:
        raise CopyError(f"{end.bootstrap} cannot be reached: {error}") from None


class Resize:
    """One run of it. `stop` may be called from a signal handler: `run` then raises CopyError, and
    another run goes on."""

    def __init__(
        self,
        spark: SparkSession,
        spec: ResizeSpec,
        begun: ResizeBegun,
        folder: CopyFolder,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._spark = spark
        self._spec = spec
        self._begun = begun
        self._folder = folder
        self._clock = clock or system_runtime().clock
        # Not an Event: its `set` would wait for ever for a lock that this very thread holds, in a
        # `wait` or in the `set` of an earlier signal.
        self._stopping = False
        self._near_since_s = self._now_s()
        self._fenced_at_s: float | None = None
        self._check: Check | None = None
        self.is_checking = False

    @property
    def fenced_s(self) -> float | None:
        """For how long the topic has taken no records, while it is fenced."""
        at_s = self._fenced_at_s
        return None if at_s is None else self._now_s() - at_s

    def stop(self) -> None:
        self._stopping = True

    def run(self, watch: Callable[[Progress], None] = lambda progress: None) -> ResizeReport:
        try:
            return self._run(watch)
        except OttlaError as error:
            if self._stopping or self._is_under_way():
                raise
            raise CopyError(
                f"{self._spec.source.topic} is not being resized any more: somebody gave that up, "
                f"or deleted the topic ({error})"
            ) from error

    def _is_under_way(self) -> bool:
        """As far as one can tell."""
        source = self._spec.source
        try:
            known = with_admin(source, lambda admin: admin.resizes(source.topic))
        except CopyError:
            return True
        return any(one.shadow == self._begun.shadow for one in known)

    def _run(self, watch: Callable[[Progress], None]) -> ResizeReport:
        began_s = self._now_s()
        self._forget_others()
        steps = ResizeSteps(self._spec.source, self._begun)
        try:
            if self._spec.check:
                self._check_copy(watch)
            for _ in range(_FENCES):
                copier = self._copier()
                try:
                    copier.start()
                    self._near_since_s = self._now_s()
                    self._catch_up(copier, watch)
                    ended = self._finish(copier, steps)
                    if ended is not None:
                        self._folder.forget()
                        return self._report(copier, *ended, self._now_s() - began_s)
                finally:
                    copier.close()
                time.sleep(_PAUSE_S)
        finally:
            steps.close()
        raise CopyError("the fence was lifted again and again: brokers come and go, try later")

    def _forget_others(self) -> None:
        """A resize that was given up had a shadow of the same name."""
        self._folder.open()
        try:
            known = self._folder.state()
            if known is not None and known.identity.target_id != self._shadow_id:
                self._folder.forget()
        finally:
            self._folder.close()

    @property
    def _shadow_id(self) -> str:
        return format_topic_id(self._begun.shadow_id)

    def _copier(self) -> Copier:
        spec = self._spec
        shadow = Endpoint(spec.source.bootstrap, self._begun.shadow, spec.source.kafka)
        job = CopyJob(spec.source, shadow, spec.partitioner, into_empty=True)
        return Copier(self._spark, job, self._folder, clock=self._clock, by_hand=_BY_HAND)

    def _check_copy(self, watch: Callable[[Progress], None]) -> None:
        """What is copied by then is read back before anybody is kept waiting: a copy that is not
        what was read never gets the name. What comes later is copied behind it."""
        copier = self._copier()

        def look() -> None:
            watch(copier.progress())
            self._raise_if_stopping(copier)

        try:
            copier.start()
            self._near_since_s = self._now_s()
            self._catch_up(copier, watch)
            known = copier.state.positions
            ends = copier.source_ends()
            copier.finish({p: max(end, known.get(p, 0)) for p, end in ends.items()})
            self.is_checking = True
            self._check = copier.check(look)
        finally:
            self.is_checking = False
            copier.close()
        if not self._check.is_sound:
            raise CopyError(
                f"{len(self._check.differing)} pairs of partitions of {self._begun.shadow} do not "
                f"hold what was copied to them: {self._spec.source.topic} stays as it is; give the "
                "resize up with --abort, and try again"
            )

    def _raise_if_stopping(self, copier: Copier) -> None:
        if self._stopping:
            copier.pause()
            raise CopyError(
                f"stopped after {copier.state.tally.records:,} records: the same command goes "
                "on from there, --abort gives it up"
            )

    def _catch_up(self, copier: Copier, watch: Callable[[Progress], None]) -> None:
        """Returns when what is left is copied in a moment."""
        while True:
            ended = copier.wait(_POLL_S)
            progress = copier.progress()
            watch(progress)
            if ended:
                copier.finish()  # raises why
                raise CopyError("the copy has ended too early")
            self._raise_if_stopping(copier)
            if self._is_near(copier, progress.records_per_s):
                return

    def _is_near(self, copier: Copier, records_per_s: float) -> bool:
        """Whether the rest is copied in a moment. A producer that is as fast as the copy keeps it
        from getting closer than a job of Spark's is long: then that is what there is."""
        lag, now_s = copier.lag_now(), self._now_s()
        if lag > max(_SMALL_LAG, records_per_s):
            self._near_since_s = now_s
            return False
        small = max(_SMALL_LAG, records_per_s * _SMALL_LAG_S)
        if copier.is_close and lag <= min(small, _BY_HAND):
            return True
        return now_s - self._near_since_s > _CLOSER_WITHIN_S

    def _finish(
        self, copier: Copier, steps: ResizeSteps
    ) -> tuple[ResizeEnd, float, list[GroupOutcome]] | None:
        """None where the fence was lifted before the end: then the topic serves as before."""
        try:
            steps.connect()
            self._fenced_at_s = began_s = self._now_s()
            fence = steps.fence()
            with steps.kept_fenced(fence):
                asked = steps.begin_positions()
                copier.finish(steps.ends(fence))
                groups, outcomes = self._groups(copier, steps.positions(asked))
                guards_keys = not copier.state.tally.misplaced
                end = self._swap(lambda: steps.finish(fence, groups, guards_keys=guards_keys))
        except CopyError as error:
            if code_of(error) in _AGAIN:
                return None
            raise
        finally:
            self._fenced_at_s = None
        return None if end is None else (end, self._now_s() - began_s, outcomes)

    def _swap(self, ask: Callable[[], ResizeEnd]) -> ResizeEnd | None:
        """Asked again where nobody has said how it went: the controller may have been another one
        by then, and knows whether the name has changed hands."""
        deadline_s = self._now_s() + _PATIENCE_S
        while True:
            try:
                return ask()
            except CopyError as error:
                code = code_of(error)
                if code is ErrorCode.FENCED_LEADER_EPOCH:
                    return None
                if code not in _AGAIN or self._now_s() > deadline_s:
                    raise
            time.sleep(_POLL_S)

    def _groups(
        self, copier: Copier, positions: Mapping[str, Mapping[int, int]]
    ) -> tuple[dict[str, Mapping[int, int]], list[GroupOutcome]]:
        translation = Translation(copier.state.spans(), copier.target_ends())
        groups: dict[str, Mapping[int, int]] = {}
        outcomes = []
        for group, committed in sorted(positions.items()):
            carried = translation.carry(committed)
            groups[group] = carried.offsets
            outcomes.append(GroupOutcome(group, carried.again))
        return groups, outcomes

    def _report(
        self,
        copier: Copier,
        end: ResizeEnd,
        fenced_s: float,
        outcomes: list[GroupOutcome],
        seconds: float,
    ) -> ResizeReport:
        state, spec = copier.state, self._spec
        report = CloneReport(
            spec.source.topic,
            spec.source.topic,
            str(spec.partitioner),
            seconds,
            state.tally,
            state.keys.estimate(),
            {p: state.records_in(p) for p in range(spec.partitions)},
            self._begun.old_partitions,
            state.aged_out,
            self._check,
            outcomes,
        )
        return ResizeReport(report, fenced_s, end, self._begun.retention_ms)

    def _now_s(self) -> float:
        return self._clock.monotonic_ms() / 1000
