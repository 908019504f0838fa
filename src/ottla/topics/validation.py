"""Checks of a topic's creation and expansion, in Kafka's order, as pure functions
(ZkAdminManager.createTopics/createPartitions, AdminZkClient.validateTopicCreate).

What comes before (not the controller, the same name twice in a request, rights) and after
(policy, quota) belongs to whoever serves the request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.znodes import MAX_ZNODE_BYTES
from ottla.topics import names
from ottla.topics.assignment import AdminOperationError, BrokerMetadata, assign_replicas
from ottla.topics.configs import validate_topic_configs
from ottla.topics.names import TopicNames

NO_NUMBER = -1
# A znode holds about 70,000 partitions at ZooKeeper's default limit. Kafka 2.8 has no bound of
# its own and would try to place 2^31 - 1 of them.
MAX_PARTITIONS = 200_000
# New partitions of one CreateTopics or CreatePartitions request, as in Kafka 4.0 (KAFKA-17870).
# Kafka 2.8 has no bound, and a few bytes keep its controller busy until its session is over.
MAX_PARTITIONS_PER_REQUEST = 10_000
# Of a file or folder, on all file systems that matter; a log's folder is `<topic>-<partition>`.
_MAX_FOLDER_NAME_LENGTH = 255


@dataclass(frozen=True, slots=True)
class CreationRequest:
    """One topic of a CreateTopics request; `assignments` are (partition, brokers) pairs."""

    name: str
    partitions: int = NO_NUMBER
    replication_factor: int = NO_NUMBER
    assignments: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class CreationPlan:
    """What to write: replicas by partition, and the topic's own configs."""

    name: str
    assignment: dict[int, list[int]]
    configs: dict[str, str]

    @property
    def partitions(self) -> int:
        return len(self.assignment)

    @property
    def replication_factor(self) -> int:
        return len(self.assignment[0])


@dataclass(frozen=True, slots=True)
class ExpansionRequest:
    """One topic of a CreatePartitions request; `count` is the new total, `assignments` the
    brokers of each new partition or None."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None


def plan_creation(
    request: CreationRequest,
    *,
    cached_topics: Collection[str],
    existing_topics: TopicNames,
    brokers: Sequence[BrokerMetadata],
    default_partitions: int,
    default_replication_factor: int,
    random: Random,
) -> CreationPlan:
    """Raises KafkaError with Kafka's code and text.

    `cached_topics` are those the broker knows of, `existing_topics` those in the store, and
    `brokers` the alive ones with their racks.
    """
    _check_request(request, cached_topics)
    if request.assignments:
        assignment = {partition: list(ids) for partition, ids in request.assignments}
    else:
        partitions = _given(request.partitions, default_partitions)
        check_bound(partitions)
        assignment = assign_replicas(
            brokers,
            partitions,
            _given(request.replication_factor, default_replication_factor),
            random=random,
        )
    configs = {name: value for name, value in request.configs if value is not None}
    check_new_topic(request.name, existing_topics, assignment, configs)
    return CreationPlan(request.name, dict(sorted(assignment.items())), configs)


def check_new_topic(
    name: str,
    existing_topics: TopicNames,
    assignment: Mapping[int, Sequence[int]],
    configs: Mapping[str, str],
) -> None:
    """AdminZkClient.validateTopicCreate: what holds for every topic, however it is made."""
    _check_name(name, existing_topics)
    _check_assignment(assignment)
    _check_folder_names(name, assignment)
    validate_topic_configs(configs)


def _given(number: int, default: int) -> int:
    return default if number == NO_NUMBER else number


def _check_request(request: CreationRequest, cached_topics: Collection[str]) -> None:
    if request.name in cached_topics:
        raise _already_exists(request.name)
    without_value = [name for name, value in request.configs if value is None]
    if without_value:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Null value not supported for topic configs : {','.join(without_value)}",
        )
    numbers = (request.partitions, request.replication_factor)
    if request.assignments and numbers != (NO_NUMBER, NO_NUMBER):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both "
            "cannot be used at the same time.",
        )


def check_total(partitions: int) -> None:
    """The new partitions of all topics of a request; raises POLICY_VIOLATION as Kafka 4.0 does."""
    if partitions > MAX_PARTITIONS_PER_REQUEST:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
        )


def check_stored_size(name: str, size: int) -> None:
    """What is to be stored for a topic; Kafka 2.8 tries, loses its session, and tries again."""
    if size > MAX_ZNODE_BYTES:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"Topic '{name}' is too large to be stored: {size} bytes, at most {MAX_ZNODE_BYTES}.",
        )


def _check_folder_names(name: str, partitions: Collection[int]) -> None:
    """Kafka allows names of 249 characters, which leaves room for 100,000 partitions."""
    longest = f"{name}-{max(partitions, default=0)}"
    if len(longest) > _MAX_FOLDER_NAME_LENGTH:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic '{name}' has too long a name for {len(partitions)} partitions: their folders "
            f"would have names of {len(longest)} characters, at most {_MAX_FOLDER_NAME_LENGTH}.",
        )


def check_bound(partitions: int) -> None:
    """A number of partitions that can be stored at all."""
    if partitions > MAX_PARTITIONS:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions must not be larger than {MAX_PARTITIONS}.",
        )


def _check_name(name: str, existing_topics: TopicNames) -> None:
    names.validate(name)
    if name in existing_topics:
        raise _already_exists(name)
    colliding = existing_topics.colliding_with(name)
    if colliding:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
        )


def _already_exists(name: str) -> KafkaError:
    return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")


def _check_assignment(assignment: Mapping[int, Sequence[int]]) -> None:
    factors = {len(replicas) for replicas in assignment.values()}
    if len(factors) != 1:
        raise _bad_assignment("All partitions should have the same number of replicas")
    if factors == {0}:
        # Kafka 2.8 lets this through and is left with partitions that can have no leader.
        raise _no_replicas(min(assignment))
    if any(len(set(replicas)) < len(replicas) for replicas in assignment.values()):
        shown = ", ".join(
            f"{partition} -> ArrayBuffer({', '.join(map(str, replicas))})"
            for partition, replicas in assignment.items()
        )
        raise _bad_assignment(f"Duplicate replica assignment found: HashMap({shown})")
    if set(assignment) != set(range(len(assignment))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _no_replicas(partition: int) -> KafkaError:
    return _bad_assignment(f"Cannot have replication factor of 0 for partition id {partition}.")


def plan_expansion(
    request: ExpansionRequest,
    *,
    existing: Mapping[int, Sequence[int]],
    brokers: Sequence[BrokerMetadata],
    random: Random,
    is_queued_for_deletion: bool = False,
    is_reassigning: bool = False,
) -> dict[int, list[int]]:
    """The new partitions' replicas. Raises KafkaError with Kafka's code and text.

    `existing` is the topic's assignment (empty: no such topic), `brokers` all registered ones
    as `assignment.select_brokers` gives them.
    """
    if is_queued_for_deletion:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if is_reassigning:
        raise KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            f"A partition reassignment is in progress for the topic '{request.name}'.",
        )
    if not existing:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{request.name}' does not exist."
        )
    _check_count(request.count, len(existing))
    if request.assignments is not None:
        proposed = _proposed(request, len(existing), {broker.id for broker in brokers})
        _check_proposed(proposed, len(_first_partition(request.name, existing)))
        _check_folder_names(request.name, proposed)
        return proposed
    placed = _place_new_partitions(request.name, request.count, existing, brokers, random)
    _check_folder_names(request.name, placed)
    return placed


def plan_direct_expansion(
    name: str,
    total: int,
    *,
    existing: Mapping[int, Sequence[int]],
    proposed: Mapping[int, Sequence[int]] | None,
    brokers: Sequence[BrokerMetadata],
    random: Random,
) -> dict[int, list[int]]:
    """The same for whoever writes the znode without asking a broker (AdminZkClient.addPartitions).

    As there: how many partitions are proposed is not compared with the total, and the texts are
    others than those of CreatePartitions.
    """
    replication_factor = len(_first_partition(name, existing))
    if total <= len(existing):
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions for a topic can only be increased. Topic {name} currently "
            f"has {len(existing)} partitions, {total} would not be an increase.",
        )
    check_bound(total)
    if proposed is None:
        return _place_new_partitions(name, total, existing, brokers, random)
    _check_available(proposed, [broker.id for broker in brokers])
    _check_proposed(proposed, replication_factor)
    return {partition: list(replicas) for partition, replicas in proposed.items()}


def _check_available(proposed: Mapping[int, Sequence[int]], available: Sequence[int]) -> None:
    for partition, replicas in proposed.items():
        if not set(replicas) <= set(available):
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"Some brokers specified for partition id {partition} are not available. "
                f"Specified brokers: {', '.join(map(str, replicas))}, available brokers: "
                f"{', '.join(map(str, available))}.",
            )


def _place_new_partitions(
    name: str,
    total: int,
    existing: Mapping[int, Sequence[int]],
    brokers: Sequence[BrokerMetadata],
    random: Random,
) -> dict[int, list[int]]:
    """Goes on from where the first partition's first replica is."""
    first_replicas = _first_partition(name, existing)
    indexes = (i for i, broker in enumerate(brokers) if broker.id >= first_replicas[0])
    return assign_replicas(
        brokers,
        total - len(existing),
        len(first_replicas),
        random=random,
        fixed_start_index=next(indexes, 0),
        start_partition_id=len(existing),
    )


def _first_partition(name: str, existing: Mapping[int, Sequence[int]]) -> Sequence[int]:
    replicas = existing.get(0)
    if not replicas:
        raise AdminOperationError(
            f"Unexpected existing replica assignment for topic '{name}', partition id 0 is missing."
        )
    return replicas


def _check_count(count: int, present: int) -> None:
    if count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic currently has {present} partitions, which is higher than the requested "
            f"{count}.",
        )
    if count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partitions.")
    check_bound(count)


def _proposed(
    request: ExpansionRequest, present: int, broker_ids: set[int]
) -> dict[int, list[int]]:
    given = request.assignments or ()
    unknown = {broker for replicas in given for broker in replicas} - broker_ids
    if unknown:
        raise _bad_assignment(
            f"Unknown broker(s) in replica assignment: {', '.join(map(str, sorted(unknown)))}."
        )
    if len(given) != request.count - present:
        raise _bad_assignment(
            f"Increasing the number of partitions by {request.count - present} but {len(given)} "
            "assignments provided."
        )
    return {present + index: list(replicas) for index, replicas in enumerate(given)}


def _check_proposed(proposed: Mapping[int, Sequence[int]], replication_factor: int) -> None:
    for partition, replicas in proposed.items():
        if not replicas:
            raise _no_replicas(partition)
        if len(set(replicas)) < len(replicas):
            raise _bad_assignment(
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {partition}."
            )
    odd = [item for item in proposed.items() if len(item[1]) != replication_factor]
    if odd:
        partitions = ", ".join(str(partition) for partition, _ in odd)
        factors = ", ".join(str(len(replicas)) for _, replicas in odd)
        raise _bad_assignment(
            f"Inconsistent replication factor between partitions, partition 0 has "
            f"{replication_factor} while partitions [{partitions}] have replication factors "
            f"[{factors}], respectively."
        )
