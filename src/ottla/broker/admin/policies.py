"""Site policies for topics: `create.topic.policy.class.name=package.module:Class` (KIP-108).

The class is made without arguments; its `validate(request)` raises `PolicyViolation(message)` to
refuse a topic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from ottla.errors import ErrorCode, KafkaError, OttlaError


class PolicyViolation(KafkaError):
    """A policy refuses the request; clients see POLICY_VIOLATION and the message."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """What a policy gets to see; counts are None where a manual assignment is given."""

    topic: str
    num_partitions: int | None
    replication_factor: int | None
    replicas_assignments: Mapping[int, list[int]] | None
    configs: Mapping[str, str]


class CreateTopicPolicy(Protocol):
    def validate(self, request: TopicRequest) -> None: ...


class BadPolicyError(OttlaError):
    """The configured policy cannot be loaded; fatal at start."""


def load_create_topic_policy(reference: str | None) -> CreateTopicPolicy | None:
    """Imports the policy named `package.module:Class`; raises BadPolicyError."""
    if not reference:
        return None
    module_name, _, class_name = reference.partition(":")
    try:
        policy = getattr(import_module(module_name), class_name)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BadPolicyError(
            f"create.topic.policy.class.name={reference} cannot be loaded: {error}"
        ) from error
    return cast("CreateTopicPolicy", policy)
