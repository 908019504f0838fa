"""Checks of creation and expansion: every code and text, and their order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.assignment import AdminOperationError, BrokerMetadata
from ottla.topics.names import TopicNames
from ottla.topics.validation import (
    CreationPlan,
    CreationRequest,
    ExpansionRequest,
    check_stored_size,
    check_total,
    plan_creation,
    plan_expansion,
)

THREE = [BrokerMetadata(id) for id in (1, 2, 3)]


def create(request: CreationRequest, **given: Any) -> CreationPlan:
    facts: dict[str, Any] = {
        "cached_topics": {"cached"},
        "existing_topics": TopicNames(["cached", "stored", "a_b"]),
        "brokers": THREE,
        "default_partitions": 4,
        "default_replication_factor": 2,
        "random": random.Random(1),
    }
    return plan_creation(request, **(facts | given))


def expand(request: ExpansionRequest, **given: Any) -> dict[int, list[int]]:
    facts: dict[str, Any] = {
        "existing": {0: [2, 3], 1: [3, 1], 2: [1, 2]},
        "brokers": THREE,
        "random": random.Random(1),
    }
    return plan_expansion(request, **(facts | given))


def failure(call: Any) -> tuple[ErrorCode, str | None]:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code, caught.value.message


def test_defaults_fill_what_is_not_given() -> None:
    plan = create(CreationRequest("t", configs=[("retention.ms", "5")]))
    assert (plan.partitions, plan.replication_factor) == (4, 2)
    assert plan.configs == {"retention.ms": "5"}
    assert create(CreationRequest("t", partitions=7)).partitions == 7
    assert create(CreationRequest("t", replication_factor=3)).replication_factor == 3


def test_a_manual_assignment_is_taken_as_it_is() -> None:
    """Unknown brokers are not looked for: Kafka does not either."""
    plan = create(CreationRequest("t", assignments=[(1, [9, 1]), (0, [1, 9])]))
    assert plan.assignment == {0: [1, 9], 1: [9, 1]}


INVALID_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (
            CreationRequest("cached", configs=[("a", None)]),
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 'cached' already exists.",
        ),
        (
            CreationRequest("t", partitions=1, assignments=[(0, [1])], configs=[("b", None)]),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for topic configs : b",
        ),
        (
            CreationRequest("t", configs=[("a", None), ("x", "1"), ("b", None)]),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for topic configs : a,b",
        ),
        *(
            (
                CreationRequest("t", *numbers, assignments=[(0, [1])]),
                ErrorCode.INVALID_REQUEST,
                "Both numPartitions or replicationFactor and replicasAssignments were set. Both "
                "cannot be used at the same time.",
            )
            for numbers in ((1, -1), (-1, 1))
        ),
        (
            CreationRequest("bad name", partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        (
            CreationRequest("t", partitions=-2),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        (
            CreationRequest("t", partitions=2**31 - 1),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must not be larger than 200000.",
        ),
        (
            CreationRequest("t", replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0.",
        ),
        (
            CreationRequest("t", replication_factor=4),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            CreationRequest("", configs=[("no.such", "1")]),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is illegal, it can't be empty",
        ),
        (
            CreationRequest("stored"),
            ErrorCode.TOPIC_ALREADY_EXISTS,
            "Topic 'stored' already exists.",
        ),
        (
            CreationRequest("a.b", assignments=[(5, [1, 1])]),
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic 'a.b' collides with existing topics: a_b",
        ),
        (
            CreationRequest("t", assignments=[(0, [1]), (1, [1, 2])]),
            INVALID_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (
            CreationRequest("t", assignments=[(0, []), (1, [])]),
            INVALID_ASSIGNMENT,
            "Cannot have replication factor of 0 for partition id 0.",
        ),
        (
            CreationRequest("t", assignments=[(0, [1, 1]), (7, [1, 2])]),
            INVALID_ASSIGNMENT,
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1), "
            "7 -> ArrayBuffer(1, 2))",
        ),
        *(
            (
                CreationRequest("t", assignments=[(p, [1]) for p in partitions]),
                INVALID_ASSIGNMENT,
                "partitions should be a consecutive 0-based integer sequence",
            )
            for partitions in ([1, 2], [0, 2], [-1, 0], [-5, 0, 3])
        ),
        (
            CreationRequest("t", configs=[("no.such", "1")]),
            ErrorCode.INVALID_CONFIG,
            "Unknown topic config name: no.such",
        ),
        (
            CreationRequest("t", configs=[("retention.ms", "soon")]),
            ErrorCode.INVALID_CONFIG,
            "Invalid value soon for configuration retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_creation_errors(request_: CreationRequest, code: ErrorCode, text: str) -> None:
    assert failure(lambda: create(request_)) == (code, text)


def test_mixed_racks_fail_without_a_message() -> None:
    mixed = [BrokerMetadata(1, "a"), BrokerMetadata(2)]
    with pytest.raises(AdminOperationError) as caught:
        create(CreationRequest("t"), brokers=mixed)
    assert (caught.value.code, caught.value.message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)


def test_expansion_starts_at_the_first_partitions_leader() -> None:
    """Broker 2 is at index 1: start and shift are 1, partition 3 begins a new round."""
    assert expand(ExpansionRequest("t", 5)) == {3: [2, 3], 4: [3, 1]}


def test_expansion_where_the_first_leader_is_gone() -> None:
    assert expand(ExpansionRequest("t", 2), existing={0: [9]}) == {1: [2]}


def test_expansion_by_hand() -> None:
    request = ExpansionRequest("t", 5, [[1, 2], [3, 1]])
    assert expand(request) == {3: [1, 2], 4: [3, 1]}


@pytest.mark.parametrize(
    ("request_", "given", "code", "text"),
    [
        (
            ExpansionRequest("t", 1),
            {"is_queued_for_deletion": True, "is_reassigning": True},
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "The topic is queued for deletion.",
        ),
        (
            ExpansionRequest("t", 1),
            {"is_reassigning": True},
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "A partition reassignment is in progress for the topic 't'.",
        ),
        (
            ExpansionRequest("t", 1),
            {"existing": {}},
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 't' does not exist.",
        ),
        (
            ExpansionRequest("t", 2, [[9]]),
            {},
            ErrorCode.INVALID_PARTITIONS,
            "Topic currently has 3 partitions, which is higher than the requested 2.",
        ),
        (
            ExpansionRequest("t", 3),
            {},
            ErrorCode.INVALID_PARTITIONS,
            "Topic already has 3 partitions.",
        ),
        (
            ExpansionRequest("t", 2**31 - 1),
            {},
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions must not be larger than 200000.",
        ),
        (
            ExpansionRequest("t", 5, [[9, 1], [8]]),
            {},
            INVALID_ASSIGNMENT,
            "Unknown broker(s) in replica assignment: 8, 9.",
        ),
        (
            ExpansionRequest("t", 5, [[1, 2]]),
            {},
            INVALID_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            ExpansionRequest("t", 5, []),
            {},
            INVALID_ASSIGNMENT,
            "Increasing the number of partitions by 2 but 0 assignments provided.",
        ),
        (
            ExpansionRequest("t", 5, [[1, 2], []]),
            {},
            INVALID_ASSIGNMENT,
            "Cannot have replication factor of 0 for partition id 4.",
        ),
        (
            ExpansionRequest("t", 4, [[1, 1]]),
            {},
            INVALID_ASSIGNMENT,
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 3.",
        ),
        (
            ExpansionRequest("t", 5, [[1], [1, 2, 3]]),
            {},
            INVALID_ASSIGNMENT,
            "Inconsistent replication factor between partitions, partition 0 has 2 while "
            "partitions [3, 4] have replication factors [1, 3], respectively.",
        ),
        (
            ExpansionRequest("t", 4),
            {"brokers": THREE[:1]},
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 2 larger than available brokers: 1.",
        ),
        (ExpansionRequest("t", 4), {"existing": {1: [1]}}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    ],
)
def test_expansion_errors(
    request_: ExpansionRequest, given: dict[str, Any], code: ErrorCode, text: str | None
) -> None:
    assert failure(lambda: expand(request_, **given)) == (code, text)


def test_a_request_makes_at_most_10_000_partitions() -> None:
    check_total(10_000)
    assert failure(lambda: check_total(10_001)) == (
        ErrorCode.POLICY_VIOLATION,
        "Excessively large number of partitions per request.",
    )


def test_what_does_not_fit_a_znode_is_refused() -> None:
    check_stored_size("t", 1_000_000)
    code, text = failure(lambda: check_stored_size("t", 1_000_001))
    assert code is ErrorCode.POLICY_VIOLATION
    assert text == "Topic 't' is too large to be stored: 1000001 bytes, at most 1000000."


def test_the_longest_name_leaves_room_for_100_000_partitions() -> None:
    name = "n" * 249
    assert create(CreationRequest(name, partitions=100_000)).partitions == 100_000
    code, text = failure(lambda: create(CreationRequest(name, partitions=100_001)))
    assert code is ErrorCode.INVALID_PARTITIONS
    assert text is not None and "names of 256 characters, at most 255" in text
    assert create(CreationRequest("n" * 248, partitions=100_001)).partitions == 100_001
    existing = {partition: [1] for partition in range(100_000)}
    code, _ = failure(lambda: expand(ExpansionRequest(name, 100_001), existing=existing))
    assert code is ErrorCode.INVALID_PARTITIONS
    one_more = ExpansionRequest(name, 100_001, [[1]])
    code, _ = failure(lambda: expand(one_more, existing=existing))
    assert code is ErrorCode.INVALID_PARTITIONS
