"""The placement of a new topic's replicas, step by step, for people to watch.

The assignment itself is `ottla.topics.assignment`'s, with the start index and the shift pinned; the
steps tell how it came about. Kafka draws both numbers at random, so that a drawing is what a broker
does only where the drawn assignment is sent along.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import msgspec

from ottla.topics.assignment import BrokerMetadata, assign_replicas, rack_alternated

# More than anybody steps through; the assignment itself is always whole.
MAX_STEPPED_PARTITIONS = 48


class Place(msgspec.Struct):
    """A broker at its index of the walk."""

    broker: int
    rack: str | None


class Step(msgspec.Struct):
    """One replica finds its broker. `passed` are indexes that were looked at and left."""

    partition: int
    replica: int
    index: int
    broker: int
    shift: int
    passed: list[int]
    words: str


class Drawing(msgspec.Struct):
    places: list[Place]
    start_index: int
    shift: int
    assignment: list[list[int]]
    steps: list[Step]
    stepped_partitions: int


def draw(
    brokers: Sequence[BrokerMetadata],
    partitions: int,
    replication_factor: int,
    *,
    random: Random,
    start_index: int | None = None,
    shift: int | None = None,
) -> Drawing:
    """Raises KafkaError as a broker would for numbers that cannot be."""
    ordered = sorted(brokers)
    start = random.randrange(max(1, len(ordered))) if start_index is None else start_index
    first_shift = random.randrange(max(1, len(ordered))) if shift is None else shift
    assignment = assign_replicas(
        ordered,
        partitions,
        replication_factor,
        random=random,
        start_index=start,
        shift=first_shift,
    )
    places = walk_order(ordered)
    stepped = min(partitions, MAX_STEPPED_PARTITIONS)
    steps: list[Step] = []
    for partition in range(stepped):
        steps += _steps_of(places, partition, replication_factor, start, first_shift)
    return Drawing(
        places, start, first_shift, [assignment[p] for p in range(partitions)], steps, stepped
    )


def walk_order(brokers: Sequence[BrokerMetadata]) -> list[Place]:
    """By id; with racks, one broker of each rack in turn."""
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    if not racks:
        return [Place(broker.id, None) for broker in brokers]
    return [Place(broker, racks[broker]) for broker in rack_alternated(racks)]


def _steps_of(
    places: Sequence[Place], partition: int, replication_factor: int, start: int, first_shift: int
) -> list[Step]:
    count = len(places)
    rounds = partition // count
    shift = first_shift + rounds
    first = (partition + start) % count
    has_grown = partition > 0 and partition % count == 0
    grown = (
        f"Every broker has had a first replica: the shift grows to {shift}. " if has_grown else ""
    )
    words = (
        f"{grown}The first replica takes index ({partition} + start {start}) mod {count} = {first}"
    )
    steps = [_step(places, partition, 0, first, shift, [], words)]
    if places[0].rack is None:
        for replica in range(1, replication_factor):
            distance = 1 + (shift + replica - 1) % (count - 1)
            index = (first + distance) % count
            words = (
                f"Replica {replica + 1} stands 1 + (shift {shift} + {replica - 1}) mod "
                f"{count - 1} = {distance} further: index {index}"
            )
            steps.append(_step(places, partition, replica, index, shift, [], words))
        return steps
    return steps + _with_racks(places, partition, replication_factor, first, shift)


def _with_racks(
    places: Sequence[Place], partition: int, replication_factor: int, first: int, shift: int
) -> list[Step]:
    count = len(places)
    rack_count = len({place.rack for place in places})
    taken = [first]
    used = {places[first].rack}
    looked = shift * rack_count % (count - 1) if count > 1 else 0
    steps: list[Step] = []
    while len(taken) < replication_factor:
        passed: list[int] = []
        reasons: list[str] = []
        while True:
            index = (first + 1 + looked % (count - 1)) % count
            looked += 1
            place = places[index]
            if index in taken:
                reasons.append(f"index {index} has a replica")
            elif place.rack in used and len(used) < rack_count:
                reasons.append(f"rack {place.rack} has one, others have none")
            else:
                break
            passed.append(index)
        over = f"{'; '.join(reasons)}: passed over. " if reasons else ""
        replica = len(taken)
        words = f"{over}Replica {replica + 1} takes index {index}, rack {place.rack}"
        steps.append(_step(places, partition, replica, index, shift, passed, words))
        taken.append(index)
        used.add(place.rack)
    return steps


def _step(
    places: Sequence[Place],
    partition: int,
    replica: int,
    index: int,
    shift: int,
    passed: list[int],
    words: str,
) -> Step:
    broker = places[index].broker
    told = f"{words}: broker {broker}."
    return Step(partition, replica, index, broker, shift, passed, told)
