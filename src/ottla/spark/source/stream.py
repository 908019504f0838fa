"""The driver's side of a streaming query: where each micro-batch ends.

Spark asks a hundred times a second while nothing comes. The answer then waits a little, so that an
idle query costs a cluster a few requests per second.
"""

from __future__ import annotations

from typing import Any

from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient, TopicNow
from ottla.spark.options import SourceOptions
from ottla.spark.source import offsets as o
from ottla.spark.source.kept_group import KeptGroup
from ottla.spark.source.planner import (
    IDLE_REQUESTS_PER_S,
    METADATA_MAX_AGE_S,
    Continuation,
    Observation,
    Planner,
)
from ottla.types import TopicPartition

# What a look at the partitions that are known may take before the topics are looked at.
_QUICK_MS = 2_000


class StreamPlanner:
    """Offsets go in and out as JSON values."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = KafkaClient(options.connect)
        group = options.kept_group
        self._group = None if group is None else KeptGroup(self._client, group)
        self._planner = Planner(self._client, options, self._group)
        self._seen: Observation | None = None
        self._seen_s = float("-inf")
        self._next_look_s = float("-inf")
        self._target: Observation | None = None
        self._last_batch_s = self._client.now_s()
        self._told: dict[str, Any] | None = None
        # Where the query begins, until Spark has it as the end of a micro-batch.
        self._first: dict[str, Any] | None = None
        self._chosen: dict[str, Any] | None = None

    def close(self) -> None:
        self._client.close()

    def initial(self) -> dict[str, Any]:
        """Spark keeps no note of it (the connector has one of its own, KafkaMicroBatchStream): a
        first micro-batch that runs again begins wherever this says then. So that nothing is left
        out, one that begins at the latest offsets is empty and ends where it begins: that Spark
        writes down."""
        found = o.to_json(self._planner.initial())
        self._first = found if self._options.starting.moves_on else None
        return found

    def ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[o.OffsetRange]:
        self._first = None
        if start == end:
            return []
        # The end that was chosen a moment ago is of the topics that were seen then.
        seen = self._seen.topics if self._seen is not None and end == self._chosen else None
        return self._planner.between(o.from_json(start), o.from_json(end), seen=seen)

    def last_seen(self) -> dict[str, Any] | None:
        if self._seen is None:
            return None
        return o.to_json(o.assemble(self._seen.topics, self._seen.latest))

    def stop_at_present(self) -> None:
        """Trigger.AvailableNow: what is there now is all there is."""
        self._target = self._planner.observe(since={})
        self._seen, self._seen_s = self._target, self._client.now_s()

    def latest(
        self, start: dict[str, Any], max_rows: int | None, min_rows: int | None
    ) -> dict[str, Any]:
        """The end of the next micro-batch; `start` itself where there is nothing to do."""
        first, self._first = self._first, None
        if start == first:
            return first
        wait_s = self._next_look_s - self._client.now_s()
        if wait_s > 0:
            self._client.pause(wait_s * 1000)
        sent, begun_s = self._client.requests, self._client.now_s()
        self._chosen = None
        end = self._chosen = self._look(start, max_rows, min_rows)
        if end == start:
            self._next_look_s = begun_s + (self._client.requests - sent) / IDLE_REQUESTS_PER_S
        return end

    def newest(self) -> dict[str, Any]:
        """As `latest`, for a Spark that does not say where the last micro-batch ended."""
        if self._told is None and self._first is not None:
            self._told, self._first = self._first, None
        elif self._told is None:
            self._seen, self._seen_s = self._planner.observe(), self._client.now_s()
            self._told = o.to_json(o.assemble(self._seen.topics, self._seen.latest))
        else:
            self._told = self.latest(self._told, None, None)
        return self._told

    def resume(self, offsets: dict[str, Any]) -> None:
        """Where the query was before it was started again."""
        self._told = offsets

    def check_continues(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        """What `latest` sees between two micro-batches, for such a Spark: is the end of the same
        topics as the start, and not before it?"""
        if self._first is not None:
            return  # the first micro-batch, run again: its start is that of today
        begun, ended = o.from_json(start), o.from_json(end)
        begun = {t: entry for t, entry in begun.items() if not o.is_carried(begun, ended, t)}
        topics = {
            topic: TopicNow(entry.topic_id, frozenset(entry.partitions))
            for topic, entry in ended.items()
        }
        self._planner.report(o.losses_since(begun, topics, dict(o.iter_partitions(ended))))

    def _look(
        self, start: dict[str, Any], max_rows: int | None, min_rows: int | None
    ) -> dict[str, Any]:
        begun = o.from_json(start)
        # Spark asks for the next micro-batch when the last one is done: all before `start` is.
        group = self._group if self._group is not None and self._group.lacks(begun) else None
        if group is not None:
            group.find()
        ends = self._ends()
        if ends == dict(o.iter_partitions(begun)) and self._target is None and group is None:
            return start
        now, positions, carried = self._quick_look(begun, ends) or self._long_look(begun)
        if group is not None and not group.keep(begun, now.topics) and self._may_wait(group):
            return start
        latest = self._capped(begun, now, positions)
        waiting = o.waiting(positions, latest)
        if carried:
            # Where it goes on is written down before anything is read there.
            latest |= {p: at for p, at in positions.items() if p.topic in carried}
        elif min_rows is not None and self._target is None and not self._is_due(waiting, min_rows):
            return start
        if max_rows is not None:
            latest = o.limit(positions, latest, max_rows)
        if waiting:
            self._last_batch_s = self._client.now_s()
        found = o.assemble(now.topics, latest, carried)
        return start if o.same_places(begun, found) else o.to_json(found)

    def _may_wait(self, group: KeptGroup) -> bool:
        """While a resize has its fence up no position can be kept, and what is read is read again:
        the next micro-batch may as well wait for the end of it."""
        return self._target is None and not group.is_overdue()

    def _is_due(self, waiting: int, min_rows: int) -> bool:
        late_s = self._client.now_s() - self._last_batch_s
        return waiting >= min_rows or late_s * 1000 >= self._options.max_trigger_delay_ms

    def _ends(self) -> dict[TopicPartition, int] | None:
        """Of the partitions that were seen lately: one question for each of their leaders."""
        if self._seen is None or self._client.now_s() - self._seen_s > METADATA_MAX_AGE_S:
            return None
        try:
            # Not for long: some may be gone, with a topic that has fewer now.
            timeout_ms = min(_QUICK_MS, self._options.connect.timeout_ms)
            return self._planner.ends(list(self._seen.latest), timeout_ms=timeout_ms)
        except SourceError:
            return None  # the long look says what is wrong

    def _quick_look(
        self, begun: o.Offsets, ends: dict[TopicPartition, int] | None
    ) -> Continuation | None:
        """Where there is nothing new but records: the usual micro-batch."""
        if self._seen is None or ends is None:
            return None
        now = Observation(self._seen.topics, ends)
        try:
            if not self._planner.still_there(begun, now):
                return None
        except SourceError:
            return None
        self._seen, self._seen_s = now, self._client.now_s()
        return Continuation(now, o.continued(begun, now.topics, {}, ends), {})

    def _long_look(self, begun: o.Offsets) -> Continuation:
        found = self._planner.observe_since(begun)
        self._seen, self._seen_s = found.now, self._client.now_s()
        return found

    def _capped(
        self, begun: o.Offsets, now: Observation, positions: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if self._target is None:
            return now.latest
        # Partitions that came after the target was taken wait for the next run, unnamed: a change
        # of the offsets would be one more batch.
        target = self._target.latest
        known = {*target, *(p for p, _ in o.iter_partitions(begun))}
        return {
            p: max(min(end, target.get(p, positions[p])), positions[p])
            for p, end in now.latest.items()
            if p in known
        }
