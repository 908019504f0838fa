"""Which replica a consumer had better read from (KIP-392; RackAwareReplicaSelector)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.broker.fetching.params import FetchParams
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.replication.partition import Partition
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Clock

_RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LEADER_ONLY = "org.apache.kafka.common.replica.LeaderSelector"
NO_PREFERENCE = -1


class Candidate(NamedTuple):
    """A follower that has the wanted offset."""

    broker_id: int
    rack: str | None
    end_offset: int
    behind_ms: float


def is_rack_aware(class_name: str | None) -> bool:
    """What `replica.selector.class` asks for; raises OttlaError for a class that is not known."""
    if class_name in (None, "", _LEADER_ONLY):
        return False
    if class_name == _RACK_AWARE:
        return True
    raise OttlaError(f"replica.selector.class: Class {class_name} could not be found.")


def preferred_replica(
    client_rack: str, leader_rack: str | None, candidates: Iterable[Candidate]
) -> int:
    """The follower furthest ahead in the client's rack; NO_PREFERENCE (the leader) where the
    leader is there as well, nobody is, or the client names no rack."""
    if not client_rack or client_rack == leader_rack:
        return NO_PREFERENCE
    near = [found for found in candidates if found.rack == client_rack]
    if not near:
        return NO_PREFERENCE
    return max(near, key=lambda found: (found.end_offset, -found.behind_ms, found.broker_id))[0]


class ReplicaSelector:
    """What `replica.selector.class` names, with what this broker knows of followers."""

    def __init__(self, config: BrokerConfig, metadata_cache: MetadataCache, clock: Clock) -> None:
        self._is_rack_aware = is_rack_aware(config.optional_text("replica.selector.class"))
        self._own_rack = config.rack
        self._metadata_cache = metadata_cache
        self._clock = clock

    def choose(self, params: FetchParams, partition: Partition, fetch_offset: int) -> int:
        """The follower that a consumer had better read from; NO_PREFERENCE for this broker."""
        if not self._is_rack_aware or not partition.is_leader:
            return NO_PREFERENCE
        now_ms = self._clock.monotonic_ms()
        candidates = []
        for replica, remote in partition.remotes.items():
            known = self._metadata_cache.broker(replica)
            if (
                known is not None
                and params.listener in known.endpoints
                and remote.start_offset <= fetch_offset <= remote.end_offset
            ):
                behind_ms = now_ms - remote.caught_up_ms
                candidates.append(Candidate(replica, known.rack, remote.end_offset, behind_ms))
        return preferred_replica(params.client_rack, self._own_rack, candidates)
