"""Where the replicas of new partitions go (Kafka's AdminUtils.assignReplicasToBrokers).

Without racks: the first replica goes round robin from a start index; the others follow at a
distance that grows by one each time all brokers have had a first replica, so that the replicas
of one broker's partitions are spread over all others. With racks: the same walk over a list in
which racks alternate, passing over racks and brokers that already have a replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple

from ottla.errors import ErrorCode, KafkaError


class BrokerMetadata(NamedTuple):
    id: int
    rack: str | None = None


class RackAwareMode(Enum):
    """How placement uses racks: all or fail, all or none, never."""

    ENFORCED = "enforced"
    SAFE = "safe"
    DISABLED = "disabled"


class AdminOperationError(KafkaError):
    """Kafka's AdminOperationException: clients get code -1 without a message, logs the text."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR)
        self.args = (text,)


def select_brokers(
    brokers: Iterable[BrokerMetadata],
    mode: RackAwareMode = RackAwareMode.ENFORCED,
    only: Iterable[int] | None = None,
) -> list[BrokerMetadata]:
    """The brokers to place on, by id, with or without racks (AdminZkClient.getBrokerMetadatas)."""
    wanted = None if only is None else set(only)
    chosen = sorted(broker for broker in brokers if wanted is None or broker.id in wanted)
    with_rack = sum(1 for broker in chosen if broker.rack is not None)
    mixed = 0 < with_rack < len(chosen)
    if mixed and mode is RackAwareMode.ENFORCED:
        raise AdminOperationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to "
            "make replica assignment without rack information."
        )
    if mode is RackAwareMode.DISABLED or mixed:
        return [BrokerMetadata(broker.id) for broker in chosen]
    return chosen


def assign_replicas(
    brokers: Sequence[BrokerMetadata],
    partitions: int,
    replication_factor: int,
    *,
    random: Random,
    fixed_start_index: int = -1,
    start_partition_id: int = -1,
    start_index: int | None = None,
    shift: int | None = None,
) -> dict[int, list[int]]:
    """Replicas by partition, the preferred leader first.

    `fixed_start_index` sets both the start and the shift, as Kafka does for new partitions of an
    existing topic; `start_index` and `shift` pin them one by one. What is not pinned is drawn
    from `random`.
    """
    if partitions <= 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        )
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(brokers)}.",
        )
    if fixed_start_index >= 0:
        start_index = shift = fixed_start_index
    if start_index is None:
        start_index = random.randrange(len(brokers))
    if shift is None:
        shift = random.randrange(len(brokers))
    walk = _Walk(partitions, replication_factor, max(0, start_partition_id), start_index, shift)
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    if not racks:
        return _without_racks([broker.id for broker in brokers], walk)
    if len(racks) < len(brokers):
        raise AdminOperationError(
            "Not all brokers have rack information for replica rack aware assignment."
        )
    return _with_racks(racks, walk)


class _Walk(NamedTuple):
    partitions: int
    replication_factor: int
    first_partition: int
    start_index: int
    shift: int


def _without_racks(ids: list[int], walk: _Walk) -> dict[int, list[int]]:
    count = len(ids)
    twice = ids + ids  # spares the modulo of every lookup
    shift = walk.shift
    offsets = _offsets(shift, walk.replication_factor, count)
    assignment: dict[int, list[int]] = {}
    for partition in range(walk.first_partition, walk.first_partition + walk.partitions):
        if partition and partition % count == 0:
            shift += 1
            offsets = _offsets(shift, walk.replication_factor, count)
        first = (partition + walk.start_index) % count
        assignment[partition] = [twice[first + offset] for offset in offsets]
    return assignment


def _offsets(shift: int, replication_factor: int, count: int) -> list[int]:
    """Distances of the replicas from the first one, which is at 0."""
    return [0, *(1 + (shift + j) % (count - 1) for j in range(replication_factor - 1))]


def rack_alternated(racks: dict[int, str]) -> list[int]:
    """Broker ids in an order that takes one broker of each rack in turn."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks, reverse=True):
        by_rack.setdefault(racks[broker], []).append(broker)
    waiting = [by_rack[rack] for rack in sorted(by_rack)]
    arranged: list[int] = []
    while len(arranged) < len(racks):
        arranged.extend(brokers.pop() for brokers in waiting if brokers)
    return arranged


def _with_racks(racks: dict[int, str], walk: _Walk) -> dict[int, list[int]]:
    arranged = rack_alternated(racks)
    count = len(arranged)
    rack_of = [racks[broker] for broker in arranged]
    rack_count = len(set(rack_of))
    # The choice depends on the first replica and on where the search begins, nothing else: with
    # many partitions the same pairs come back, and a search may be long where racks are uneven.
    known: dict[tuple[int, int], list[int]] = {}
    shift = walk.shift
    assignment: dict[int, list[int]] = {}
    for partition in range(walk.first_partition, walk.first_partition + walk.partitions):
        if partition and partition % count == 0:
            shift += 1
        first = (partition + walk.start_index) % count
        distance = shift * rack_count % (count - 1) if count > 1 else 0
        positions = known.get((first, distance))
        if positions is None:
            positions = _spread(first, distance, walk.replication_factor, rack_of, rack_count)
            known[first, distance] = positions
        assignment[partition] = [arranged[position] for position in positions]
    return assignment


def _spread(
    first: int, distance: int, replication_factor: int, rack_of: list[str], rack_count: int
) -> list[int]:
    """Positions of one partition's replicas in the alternated list."""
    count = len(rack_of)
    positions = [first]
    used_racks = {rack_of[first]}
    step = distance
    while len(positions) < replication_factor:
        position = (first + 1 + step % (count - 1)) % count
        step += 1
        rack = rack_of[position]
        # Pass over a rack that has a replica while another has none, and over a broker that has
        # one (there is always a free broker: the factor is at most their number).
        if (rack not in used_racks or len(used_racks) == rack_count) and position not in positions:
            positions.append(position)
            used_racks.add(rack)
    return positions
