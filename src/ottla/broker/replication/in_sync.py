"""The in-sync replicas of a led partition, and the change of them that is on its way (KIP-497).

Who is in sync is decided by the partition; that it is so, only by the controller.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from ottla.broker.replication.alter_isr import IsrAnswer, IsrChange, IsrSubmitter
from ottla.errors import ErrorCode
from ottla.types import TopicPartition

logger = logging.getLogger(__name__)
# Answers after which only a LeaderAndIsr can help: another controller or leader knows better.
_STUCK = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
# A 3.x controller's way to say that a replica of the new ISR is down.
_BACK_TO_COMMITTED = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})


class InSyncReplicas:
    """`members` is what the controller wrote last, empty where this broker follows. `on_change`
    hears of an ISR that the controller has taken, and whether it lost a member."""

    __slots__ = (
        "_alter_isr",
        "_leader_epoch",
        "_on_change",
        "_tp",
        "in_flight",
        "members",
        "partition_epoch",
    )

    def __init__(
        self, tp: TopicPartition, alter_isr: IsrSubmitter, on_change: Callable[[bool], None]
    ) -> None:
        self._tp = tp
        self._alter_isr = alter_isr
        self._on_change = on_change
        self._leader_epoch = -1
        self.members: tuple[int, ...] = ()
        # The version of what the controller wrote last.
        self.partition_epoch = -1
        # The ISR asked for and not answered yet; stays set where only a LeaderAndIsr can help.
        self.in_flight: tuple[int, ...] | None = None

    @property
    def maximal(self) -> frozenset[int]:
        """Members that count for the high watermark: a pending expansion does, a pending shrink
        does not take anybody out yet."""
        return frozenset(self.members).union(self.in_flight or ())

    def begin(self, leader_epoch: int, partition_epoch: int, members: Collection[int]) -> None:
        """The state of a LeaderAndIsr; what was asked for before is moot."""
        self._leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.members = tuple(members)
        self.in_flight = None
        self.withdraw()

    def withdraw(self) -> None:
        """Nobody here waits for an answer any more."""
        self._alter_isr.clear(self._tp)

    def ask_for(self, members: tuple[int, ...]) -> None:
        change = IsrChange(
            self._tp, self._leader_epoch, members, self.partition_epoch, self._answered
        )
        if self._alter_isr.submit(change):
            verb = "Shrinking" if len(members) < len(self.members) else "Expanding"
            before, after = _join(self.members), _join(members)
            logger.info("[Partition %s] %s ISR from %s to %s", self._tp, verb, before, after)
            self.in_flight = members

    def catch_up_with(self, members: Collection[int], partition_epoch: int) -> None:
        """An answer to a change got lost with its controller: the state it wrote has a version
        that the leader does not know, and every further change would be refused."""
        if partition_epoch > self.partition_epoch:
            self.withdraw()
            self._take(tuple(members), partition_epoch)

    def _answered(self, answer: IsrAnswer) -> None:
        asked = self.in_flight
        if asked is None:
            return
        if answer.error is not ErrorCode.NONE:
            if answer.error in _STUCK:
                return
            self.in_flight = None
            if answer.error not in _BACK_TO_COMMITTED:
                self.ask_for(asked)
            return
        if (
            answer.leader_epoch != self._leader_epoch
            or answer.partition_epoch < self.partition_epoch
        ):
            return
        self._take(answer.isr, answer.partition_epoch)

    def _take(self, members: tuple[int, ...], partition_epoch: int) -> None:
        has_lost = not set(self.members) <= set(members)
        self.members = members
        self.partition_epoch = partition_epoch
        self.in_flight = None
        text = "[Partition %s] ISR updated to %s and version updated to [%d]"
        logger.info(text, self._tp, _join(members), partition_epoch)
        self._on_change(has_lost)


def _join(members: Collection[int]) -> str:
    return ",".join(map(str, members))
