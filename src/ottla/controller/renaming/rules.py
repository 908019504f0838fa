"""Which topics may get another name, and which name. Nothing is asked or done here."""

from __future__ import annotations

from collections.abc import Collection

from ottla.controller.context import ControllerContext
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.types import ZERO_TOPIC_ID, TopicId

# At once in a cluster: each asks all brokers.
MAX_RENAMES = 100
_NAMES_SHOWN = 5


def objection(
    ctx: ControllerContext, topic: str, name: str, topic_id: TopicId
) -> KafkaError | None:
    """Why a topic cannot get this name now. The order is that of CreateTopics where both apply."""
    return (
        _of_name(ctx, topic, name)
        or _of_topic(ctx, topic, topic_id)
        or _of_brokers(ctx, topic)
        or _of_coordinators(ctx)
    )


def _of_name(ctx: ControllerContext, topic: str, name: str) -> KafkaError | None:
    try:
        names.validate(name)
    except KafkaError as error:
        return error
    if names.is_reserved(topic) or names.is_reserved(name):
        return KafkaError(
            ErrorCode.INVALID_REQUEST, "An internal topic cannot be renamed, nor its name be taken."
        )
    if topic == name or name in ctx.topics:
        return KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    colliding = sorted(
        other
        for other in (ctx.topics - {topic} if names.has_collision_chars(name) else ())
        if names.collides(other, name)
    )
    if colliding:
        shown = ", ".join(colliding[:_NAMES_SHOWN])
        return KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topics: {shown}",
        )
    return None


def _of_topic(ctx: ControllerContext, topic: str, topic_id: TopicId) -> KafkaError | None:
    known = ctx.topic_ids.get(topic, ZERO_TOPIC_ID)
    if topic not in ctx.topics or not ctx.topic_assignment(topic):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if known == ZERO_TOPIC_ID:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The topic has no id, by which brokers would know it."
        )
    if topic_id not in (ZERO_TOPIC_ID, known):
        return KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID, "The topic has another id.")
    if ctx.is_queued_for_deletion(topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if any(tp.topic == topic for tp in ctx.partitions_being_reassigned):
        return KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "Partitions of the topic are being moved: rename it when they have arrived.",
        )
    if ctx.resize_of(topic) is not None:
        return KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "The topic is being resized: rename it afterwards, or abort that first.",
        )
    return None


def _of_brokers(ctx: ControllerContext, topic: str) -> KafkaError | None:
    hosts = {
        broker_id
        for assignment in ctx.topic_assignment(topic).values()
        for broker_id in assignment.replicas
    }
    # Also one without a replica: it may be elected controller halfway, or coordinate groups.
    strangers = (hosts | ctx.brokers.keys()) - ctx.ottla_brokers
    if strangers:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Brokers {_join(strangers)} are not Ottla's and do not know of renames: copy the topic"
            " to the new name instead (ottla clone), or rename it when the cluster is all Ottla's.",
        )
    old = (hosts | ctx.brokers.keys()) - ctx.renaming_brokers
    if old:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Brokers {_join(old)} run an Ottla that does not know of renames: upgrade them first.",
        )
    return None


def _of_coordinators(ctx: ControllerContext) -> KafkaError | None:
    """What a coordinator that is away knows of the topic could get lost."""
    for topic in sorted(names.INTERNAL_TOPICS):
        for tp in ctx.partitions_of(topic):
            state = ctx.leadership.get(tp)
            if state is None or not ctx.is_online(state.leader, tp):
                return KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    f"{tp} has no leader: groups or transactions of the topic could be missed.",
                )
    return None


def too_many(ctx: ControllerContext, topics: Collection[str]) -> KafkaError | None:
    """One rename at a time of a name, and so many in all."""
    if any(ctx.rename_of(topic) is not None for topic in topics):
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "A rename of this topic, or to this name, is under way."
        )
    if len(ctx.renames) >= MAX_RENAMES:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{len(ctx.renames)} renames are under way: try again."
        )
    return None


def _join(broker_ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))
