"""Who leads a partition next: one small function per strategy.

Matches kafka.controller.Election and PartitionLeaderElectionAlgorithms. Every function takes plain
values and returns an `Elected`, or None where no replica may lead. A success always raises the
leader epoch by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from ottla.metadata.znodes import LeaderAndIsr

Online = Callable[[int], bool]


class Strategy(Enum):
    """The names that Kafka's messages use."""

    OFFLINE = "OfflinePartitionLeaderElectionStrategy(false)"
    UNCLEAN = "OfflinePartitionLeaderElectionStrategy(true)"
    REASSIGN = "ReassignPartitionLeaderElectionStrategy"
    PREFERRED = "PreferredReplicaPartitionLeaderElectionStrategy"
    CONTROLLED_SHUTDOWN = "ControlledShutdownPartitionLeaderElectionStrategy"


class Elected(NamedTuple):
    """A new leadership and the brokers that LeaderAndIsr goes to."""

    state: LeaderAndIsr
    recipients: tuple[int, ...]


def _lead(current: LeaderAndIsr, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
    return current._replace(leader=leader, isr=isr, leader_epoch=current.leader_epoch + 1)


def elect_offline(
    replicas: tuple[int, ...], current: LeaderAndIsr, online: Online, *, unclean: bool
) -> Elected | None:
    """First online replica of the ISR; with `unclean`, failing that, the first online one."""
    alive = tuple(filter(online, replicas))
    for replica in alive:
        if replica in current.isr:
            isr = tuple(filter(online, current.isr))
            return Elected(_lead(current, replica, isr), alive)
    if unclean and alive:
        return Elected(_lead(current, alive[0], (alive[0],)), alive)
    return None


def needs_unclean(replicas: tuple[int, ...], current: LeaderAndIsr, online: Online) -> bool:
    """Whether only an unclean election could help, so that the topic's config must be asked. Kafka
    asks as well where nobody is alive whom it could elect: at a failover that may be thousands."""
    alive = [replica for replica in replicas if online(replica)]
    return bool(alive) and not any(replica in current.isr for replica in alive)


def elect_for_reassignment(
    target: tuple[int, ...], current: LeaderAndIsr, online: Online
) -> Elected | None:
    """First target replica that is online and in the ISR; the ISR stays (KIP-455)."""
    for replica in target:
        if replica in current.isr and online(replica):
            return Elected(_lead(current, replica, current.isr), target)
    return None


def elect_preferred(
    replicas: tuple[int, ...], current: LeaderAndIsr, online: Online
) -> Elected | None:
    """The first assigned replica or nobody."""
    if replicas and replicas[0] in current.isr and online(replicas[0]):
        return Elected(_lead(current, replicas[0], current.isr), replicas)
    return None


def elect_for_shutdown(
    replicas: tuple[int, ...],
    current: LeaderAndIsr,
    online_or_shutting_down: Online,
    shutting_down: Collection[int],
) -> Elected | None:
    """First ISR member that stays; every broker that shuts down leaves the ISR."""
    alive = tuple(filter(online_or_shutting_down, replicas))
    for replica in alive:
        if replica in current.isr and replica not in shutting_down:
            isr = tuple(member for member in current.isr if member not in shutting_down)
            return Elected(_lead(current, replica, isr), alive)
    return None


def first_leadership(
    replicas: tuple[int, ...], online: Online, controller_epoch: int
) -> LeaderAndIsr | None:
    """A new partition's leadership: the first live replica leads, all live ones are in sync."""
    alive = tuple(filter(online, replicas))
    if not alive:
        return None
    return LeaderAndIsr(alive[0], 0, alive, controller_epoch, zk_version=0)


def without_replica(current: LeaderAndIsr, replica: int, controller_epoch: int) -> LeaderAndIsr:
    """The leadership once `replica` is gone; the last ISR member stays so that it can come back."""
    isr = current.isr if len(current.isr) == 1 else tuple(r for r in current.isr if r != replica)
    return LeaderAndIsr(
        leader=-1 if current.leader == replica else current.leader,
        leader_epoch=current.leader_epoch + 1,
        isr=isr,
        controller_epoch=controller_epoch,
        zk_version=current.zk_version,
    )


def without_returned(
    replicas: tuple[int, ...], current: LeaderAndIsr, returned: Collection[int], online: Online
) -> LeaderAndIsr | None:
    """The leadership without ISR members that were away unseen (ADR 22); None where it stays, for
    want of an ISR member that is up and was there all the time.

    Where all of them were away nobody knows better than the leader. Its state is written as it is,
    so that whoever is away unseen from now on can be told.
    """
    isr = tuple(member for member in current.isr if member not in returned)
    if not isr and len(current.isr) > 1 and online(current.leader):
        return _lead(current, current.leader, current.isr)
    if len(isr) == len(current.isr) or not any(map(online, isr)):
        return None
    leader = current.leader
    if leader not in isr:
        leader = next((r for r in replicas if r in isr and online(r)), -1)
    return _lead(current, leader, isr)
