"""One partition on this broker: leader or follower, in-sync replicas, high watermark (Partition).

No disk and no network of its own: records go to the log, ISR changes to the AlterIsrManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.broker.replication.alter_isr import IsrSubmitter
from ottla.broker.replication.fetch_protocol import FetchResult
from ottla.broker.replication.in_sync import InSyncReplicas
from ottla.broker.replication.produce_waits import ProduceQueue
from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import Origin
from ottla.storage.append.leader import Checked
from ottla.storage.log.log import AppendInfo, Log
from ottla.storage.segment.segment import EMPTY
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.wire import messages as m

    PartitionState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState
    MetadataState = m.UpdateMetadataRequest.UpdateMetadataPartitionState

_UNKNOWN_OFFSET = -1


class FetchClock(Protocol):
    """When a follower's session sent its last two requests."""

    used_ms: float
    used_before_ms: float


class FetchWaiter(Protocol):
    """A fetch that waits for data here and elsewhere."""

    @property
    def as_follower(self) -> bool: ...

    def check(self, partition: Partition, /) -> None:
        """The partition has moved."""

    def complete(self) -> None:
        """There is no more to wait for."""


class Watcher(Protocol):
    """A partition's place in a fetch session, which hears of what happens here."""

    def moved(self) -> None:
        """The partition has new records or other bounds."""

    def interrupted(self) -> None:
        """The partition has another role or is gone."""


class RemoteReplica:
    """What the leader knows of a follower from its fetches."""

    __slots__ = (
        "end_offset",
        "last_caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "session",
        "start_offset",
    )

    def __init__(self) -> None:
        self.reset(0.0)

    def reset(self, last_caught_up_ms: float) -> None:
        self.end_offset = _UNKNOWN_OFFSET
        self.start_offset = _UNKNOWN_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        self.last_fetch_leader_end = _UNKNOWN_OFFSET
        self.last_fetch_ms = 0.0
        # Set while the follower has everything: its requests then do not name this partition, and
        # each of them says that it is still there.
        self.session: FetchClock | None = None

    @property
    def caught_up_ms(self) -> float:
        if self.session is None:
            return self.last_caught_up_ms
        return max(self.last_caught_up_ms, self.session.used_ms)

    def fetched(self, offset: int, start_offset: int, leader_end: int, now_ms: float) -> None:
        """A fetch from `offset`: caught up now, or as of its previous fetch."""
        if self.session is not None:
            self.last_fetch_ms = max(self.last_fetch_ms, self.session.used_before_ms)
            self.session = None
        if offset >= leader_end:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self.last_fetch_leader_end >= 0:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.start_offset = start_offset
        self.last_fetch_leader_end = leader_end
        self.last_fetch_ms = now_ms


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


class Partition:
    """A replica of this broker with its role. As leader it appends, and keeps what its followers
    have told; as follower it only holds what the fetcher writes. Whoever waits for the partition
    hangs on it: produce requests, fetches, places in fetch sessions."""

    __slots__ = (
        "_broker_id",
        "_is_alive",
        "_lag_max_ms",
        "_monotonic_ms",
        "_without_records",
        "adding_replicas",
        "epoch_start_offset",
        "fetch_waits",
        "in_sync",
        "leader",
        "leader_epoch",
        "log",
        "produce_waits",
        "remotes",
        "removing_replicas",
        "replicas",
        "tp",
        "watchers",
    )

    def __init__(
        self,
        tp: TopicPartition,
        broker_id: int,
        alter_isr: IsrSubmitter,
        *,
        lag_max_ms: int,
        monotonic_ms: Callable[[], float],
        is_alive: Callable[[int], bool],
    ) -> None:
        self.tp = tp
        self._broker_id = broker_id
        self._lag_max_ms = lag_max_ms
        self._monotonic_ms = monotonic_ms
        self._is_alive = is_alive
        self.log: Log | None = None
        self.leader: int | None = None
        self.leader_epoch = -1
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.in_sync = InSyncReplicas(tp, alter_isr, self._isr_changed)
        self.epoch_start_offset = _UNKNOWN_OFFSET
        self.remotes: dict[int, RemoteReplica] = {}
        self._without_records = FetchResult(ErrorCode.NONE)
        self.produce_waits = ProduceQueue(tp)
        # A dict keeps the order of arrival, which a simulation can repeat.
        self.fetch_waits: dict[FetchWaiter, None] = {}
        self.watchers: dict[Watcher, None] = {}

    # --- role -------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader == self._broker_id

    def leader_log(self) -> Log:
        """The log, if this broker leads; raises KafkaError(6)."""
        if self.leader != self._broker_id or self.log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def local_log(self, current_leader_epoch: int, *, require_leader: bool) -> Log:
        """Checks the client's idea of the leader epoch (-1 = none), then the role."""
        self.check_epoch(current_leader_epoch)
        if self.log is None or (require_leader and not self.is_leader):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log

    def epoch_fits(self, current_leader_epoch: int) -> bool:
        return current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch

    def check_epoch(self, current_leader_epoch: int) -> None:
        if self.epoch_fits(current_leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def _adopt(self, state: PartitionState, isr: Sequence[int]) -> None:
        self.leader_epoch = state.leader_epoch
        self.replicas = tuple(state.replicas)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)
        self.in_sync.begin(state.leader_epoch, state.partition_epoch, isr)
        self._interrupt_watchers()

    def _interrupt_watchers(self) -> None:
        for entry in tuple(self.watchers):
            entry.interrupted()

    def become_leader(self, state: PartitionState, log: Log, now_ms: float) -> bool:
        """Leads with the state's epoch; True if it did not lead before."""
        is_new_leader = not self.is_leader
        self._adopt(state, state.isr)
        self.use_log(log)
        self.epoch_start_offset = log.end_offset
        log.assign_epoch_start(state.leader_epoch)
        self.leader = self._broker_id
        others = [replica for replica in state.replicas if replica != self._broker_id]
        previous = self.remotes
        self.remotes = {replica: previous.get(replica) or RemoteReplica() for replica in others}
        for replica, remote in self.remotes.items():
            if is_new_leader:
                remote.reset(0.0)
            remote.last_caught_up_ms = now_ms if replica in state.isr else 0.0
            # `_adopt` made every session look at this partition again; until it does, a follower
            # that died must not count as caught up through the session it left behind.
            remote.session = None
        self.raise_high_watermark(now_ms)
        return is_new_leader

    def become_follower(self, state: PartitionState, log: Log) -> None:
        self._adopt(state, ())
        self.remotes = {}
        self.use_log(log)
        self.leader = state.leader
        self.fail_waits(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def use_log(self, log: Log) -> None:
        self.log = log
        log.on_start_moved = self.wake_fetches

    def fail_waits(self, error: ErrorCode) -> None:
        """The role changed or the log is gone: whoever waits here is answered."""
        self.produce_waits.fail_all(error)
        for wait in tuple(self.fetch_waits):
            wait.complete()

    def close(self, error: ErrorCode) -> None:
        self.leader = None
        self.in_sync.withdraw()
        self.fail_waits(error)
        self._interrupt_watchers()

    # --- append and high watermark ----------------------------------------------------------

    def check_in_sync(self, acks: int) -> None:
        """Raises KafkaError where too few replicas are in sync for an append with these acks."""
        log = self.leader_log()
        isr = self.in_sync.members
        if acks == -1 and len(isr) < log.settings.min_insync_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {set(isr)} is insufficient to satisfy the "
                f"min.isr requirement of {log.settings.min_insync_replicas} for partition "
                f"{self.tp}",
            )

    def append_as_leader(
        self, data: memoryview | Checked, *, acks: int, origin: Origin, now_ms: float
    ) -> AppendInfo:
        """Raises KafkaError; OSError where the disk fails."""
        log = self.leader_log()
        self.check_in_sync(acks)
        info = log.append_as_leader(data, self.leader_epoch, origin)
        if not self.raise_high_watermark(now_ms):
            self.wake_fetches()
        return info

    def append_plain(self, batches: Sequence[memoryview], acks: int) -> list[int]:
        """Base offsets of the first batches, which needed no second look; the next one is left to
        `append_as_leader`, which also knows what is wrong. Raises OSError."""
        log = self.log
        if (
            log is None
            or self.leader != self._broker_id
            or (acks == -1 and len(self.in_sync.members) < log.settings.min_insync_replicas)
        ):
            return []
        base_offsets = log.append_plain(batches, self.leader_epoch)
        if not base_offsets:
            return base_offsets
        if not self.remotes:
            log.set_high_watermark(log.end_offset)
            self.high_watermark_moved()
        elif not self.raise_high_watermark(self._monotonic_ms()):
            self.wake_fetches()
        return base_offsets

    def raise_high_watermark(self, now_ms: float) -> bool:
        """min end over the leader, the maximal ISR and whoever is caught up; only ever upwards.

        Whoever is caught up will be in the ISR soon, but a broker that is gone will not: 2.8.2
        waits for it until replica.lag.time.max.ms has passed, 3.x does not.
        """
        log = self.log
        if log is None:
            return False
        lowest = log.end_offset
        if self.remotes:
            maximal = self.in_sync.maximal
            for replica, remote in self.remotes.items():
                if remote.end_offset < lowest and (
                    replica in maximal
                    or (
                        now_ms - remote.caught_up_ms <= self._lag_max_ms and self._is_alive(replica)
                    )
                ):
                    lowest = remote.end_offset
        if lowest <= log.high_watermark:
            return False
        log.set_high_watermark(lowest)
        self.high_watermark_moved()
        return True

    def high_watermark_moved(self) -> None:
        log = self.log
        if log is not None and len(self.produce_waits):
            self.produce_waits.reached(log.high_watermark, self.acks_error())
        if self.fetch_waits or self.watchers:
            self.wake_fetches()

    def acks_error(self) -> ErrorCode:
        """What a replicated acks=all append is answered: 20 where the ISR shrank too far."""
        log = self.log
        if log is not None and len(self.in_sync.maximal) < log.settings.min_insync_replicas:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def wake_fetches(self) -> None:
        """Something can be read that could not before, or the bounds are others."""
        if self.fetch_waits:
            for wait in tuple(self.fetch_waits):
                wait.check(self)
        if self.watchers:
            for entry in tuple(self.watchers):
                entry.moved()

    def bytes_available(self, offset: int, *, as_follower: bool, committed: bool = False) -> int:
        log = self.log
        if log is None:
            return 0
        if as_follower:
            return log.bytes_between(offset, log.end_offset)
        return log.bytes_between(
            offset, log.last_stable_offset if committed else log.high_watermark
        )

    def result_without_records(self, log: Log) -> FetchResult:
        """The answer to a fetch at the end. Most partitions of a large fetch get this one, so it
        is made once and stays the same object while the bounds do not move."""
        result = self._without_records
        last_stable_offset = log.last_stable_offset
        if (
            result.high_watermark != log.high_watermark
            or result.last_stable_offset != last_stable_offset
            or result.log_start_offset != log.start_offset
        ):
            result = self._without_records = FetchResult(
                ErrorCode.NONE, log.high_watermark, last_stable_offset, log.start_offset, EMPTY
            )
        return result

    # --- followers --------------------------------------------------------------------------

    def follower_fetched(self, replica: int, offset: int, start_offset: int, now_ms: float) -> None:
        """A follower asked for `offset`, so it has everything before."""
        remote = self.remotes.get(replica)
        log = self.log
        if remote is None or log is None:
            return
        previous = remote.end_offset
        remote.fetched(offset, start_offset, log.end_offset, now_ms)
        in_sync = self.in_sync
        if (
            replica not in in_sync.members
            and in_sync.in_flight is None
            and offset >= log.high_watermark
            and offset >= self.epoch_start_offset
        ):
            in_sync.ask_for((*in_sync.members, replica))
        if previous != offset:
            self.raise_high_watermark(now_ms)

    def maybe_shrink(self, now_ms: float) -> None:
        """Asks to drop members that have not reached the end for replica.lag.time.max.ms."""
        log, in_sync = self.log, self.in_sync
        if not self.is_leader or log is None or in_sync.in_flight is not None:
            return
        slow = {
            replica
            for replica in in_sync.members
            if replica != self._broker_id and self._is_slow(replica, log.end_offset, now_ms)
        }
        if slow:
            in_sync.ask_for(tuple(replica for replica in in_sync.members if replica not in slow))

    def _is_slow(self, replica: int, end_offset: int, now_ms: float) -> bool:
        remote = self.remotes.get(replica)
        return remote is None or (
            remote.end_offset != end_offset and now_ms - remote.caught_up_ms > self._lag_max_ms
        )

    def _isr_changed(self, has_lost: bool) -> None:
        if has_lost:
            # Whoever rests in its fetch session is looked at again: it may have caught up since.
            for entry in tuple(self.watchers):
                entry.moved()
        # A shrink may have been all that the high watermark waited for.
        self.raise_high_watermark(self._monotonic_ms())

    def catch_up_with(self, told: MetadataState) -> None:
        """What the metadata of the cluster says of the ISR, if it speaks of this leader."""
        if self.is_leader and (told.leader, told.leader_epoch) == (self.leader, self.leader_epoch):
            self.in_sync.catch_up_with(told.isr, told.zk_version)

    # --- bounds -----------------------------------------------------------------------------

    def low_watermark(self, alive: set[int]) -> int:
        """The lowest log start of the leader and the live followers (DeleteRecords)."""
        log = self.leader_log()
        starts = [
            remote.start_offset for replica, remote in self.remotes.items() if replica in alive
        ]
        return min([log.start_offset, *starts])

    def epoch_end(self, epoch: int) -> EpochEnd:
        log = self.leader_log()
        return EpochEnd(*log.epochs.end_offset_for(epoch, log.end_offset))


def is_under_replicated(partition: Partition) -> bool:
    """Whether a partition that is led here lacks a replica in its ISR."""
    if len(partition.in_sync.members) == len(partition.replicas):
        return False  # most of them, most of the time
    # Replicas that a reassignment adds are expected to lag.
    own = set(partition.replicas).difference(partition.adding_replicas)
    return not own <= set(partition.in_sync.members)
