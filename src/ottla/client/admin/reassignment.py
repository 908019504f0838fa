"""What starting, following and ending a reassignment takes beside the request itself: a proposal,
checks, and throttles (kafka.admin.ReassignPartitionsCommand)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from ottla.client.admin import reassignment_plan
from ottla.client.admin.reassignment_plan import Assignment, Move, ReassignmentError
from ottla.client.admin.types import ConfigEdit, ConfigResource, raise_first_error
from ottla.config.resources import ConfigOperation
from ottla.topics.assignment import (
    BrokerMetadata,
    RackAwareMode,
    assign_replicas,
    select_brokers,
)
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin

_LEADER_RATE = "leader.replication.throttled.rate"
_FOLLOWER_RATE = "follower.replication.throttled.rate"
_LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADER_REPLICAS = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


async def replicas_of(admin: Admin, topics: Iterable[str]) -> dict[TopicPartition, list[int]]:
    described = raise_first_error(await admin.describe_topics(dict.fromkeys(topics)))
    return {
        TopicPartition(name, partition.partition): partition.replicas
        for name, topic in described.items()
        for partition in topic.partitions
    }


def propose(
    present: Assignment,
    topics: Iterable[str],
    alive: Iterable[BrokerMetadata],
    brokers: Sequence[int],
    *,
    rack_aware: bool,
    random: Random,
) -> dict[TopicPartition, list[int]]:
    """A new placement of the topics on the given brokers, as for new topics: it does not try to
    move little (generateAssignment)."""
    mode = RackAwareMode.ENFORCED if rack_aware else RackAwareMode.DISABLED
    chosen = select_brokers(alive, mode, brokers)
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in topics:
        own = {tp: replicas for tp, replicas in present.items() if tp.topic == topic}
        factor = len(own[min(own)]) if own else 0
        placed = assign_replicas(chosen, len(own), factor, random=random)
        proposed |= {TopicPartition(topic, p): replicas for p, replicas in placed.items()}
    return proposed


async def check_brokers(admin: Admin, targets: Iterable[Sequence[int]]) -> None:
    alive = {node.id for node in (await admin.describe_cluster()).nodes}
    for broker in (broker for replicas in targets for broker in replicas):
        if broker not in alive:
            raise ReassignmentError(f"Unknown broker id {broker}")


async def throttle_moves(
    admin: Admin, moves: Mapping[TopicPartition, Move], bytes_per_second: int
) -> None:
    """Holds back the replicas that take part, on their topics and their brokers."""
    leaders = reassignment_plan.leader_throttles(moves)
    followers = reassignment_plan.follower_throttles(moves)
    await _edit(
        admin,
        {
            ConfigResource.topic(topic): [
                ConfigEdit(_LEADER_REPLICAS, leaders[topic]),
                ConfigEdit(_FOLLOWER_REPLICAS, followers[topic]),
            ]
            for topic in leaders
        },
    )
    rate = str(bytes_per_second)
    rates = [ConfigEdit(name, rate) for name in (_LEADER_RATE, _FOLLOWER_RATE)]
    brokers = reassignment_plan.involved_brokers(moves)
    await _edit(admin, {ConfigResource.broker(broker): rates for broker in brokers})


async def throttle_log_dirs(admin: Admin, brokers: Iterable[int], bytes_per_second: int) -> None:
    rates = [ConfigEdit(_LOG_DIR_RATE, str(bytes_per_second))]
    await _edit(admin, {ConfigResource.broker(broker): rates for broker in brokers})


async def clear_broker_throttles(admin: Admin, brokers: Iterable[int]) -> None:
    edits = _deletions(_LEADER_RATE, _FOLLOWER_RATE, _LOG_DIR_RATE)
    await _edit(admin, {ConfigResource.broker(broker): edits for broker in brokers})


async def clear_topic_throttles(admin: Admin, topics: Iterable[str]) -> None:
    edits = _deletions(_LEADER_REPLICAS, _FOLLOWER_REPLICAS)
    await _edit(admin, {ConfigResource.topic(topic): edits for topic in topics})


async def brokers_to_clear(admin: Admin, named: Iterable[int]) -> list[int]:
    """All of them: which brokers earlier moves came from is not known any more."""
    alive = {node.id for node in (await admin.describe_cluster()).nodes}
    return sorted(alive | set(named))


async def _edit(admin: Admin, edits: Mapping[ConfigResource, Sequence[ConfigEdit]]) -> None:
    raise_first_error(await admin.incremental_alter_configs(edits))


def _deletions(*names: str) -> list[ConfigEdit]:
    return [ConfigEdit(name, None, ConfigOperation.DELETE) for name in names]
