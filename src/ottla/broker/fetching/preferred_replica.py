"""Which replica a consumer had better read from (KIP-392; RackAwareReplicaSelector): pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.errors import OttlaError

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
