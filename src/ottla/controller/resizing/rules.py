"""Which topics may be resized, and to what. Nothing is asked or done here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.controller.context import ControllerContext
from ottla.controller.events import GroupOffsets
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.topics.partitioners import Partitioner
from ottla.types import ZERO_TOPIC_ID

# At once in a cluster: each keeps a second copy of a topic.
MAX_RESIZES = 20
# The znodes of the old and the new topic change in one transaction, which has to fit a packet of
# ZooKeeper's (jute.maxbuffer, 1 MB).
MAX_PARTITIONS = 5_000
MAX_OFFSETS = 200_000


def objection(
    ctx: ControllerContext, topic: str, partitions: int, factor: int, partitioner: str
) -> KafkaError | None:
    """Why a topic cannot be resized like this now."""
    return (
        of_topic(ctx, topic)
        or _of_shape(ctx, topic, partitions, factor, partitioner)
        or of_brokers(ctx, topic)
    )


def of_topic(ctx: ControllerContext, topic: str) -> KafkaError | None:
    if names.is_reserved(topic):
        return KafkaError(ErrorCode.INVALID_REQUEST, "An internal topic cannot be resized.")
    if topic not in ctx.topics or not ctx.topic_assignment(topic):
        text = f"There is no topic '{topic}'."
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    if ctx.topic_ids.get(topic, ZERO_TOPIC_ID) == ZERO_TOPIC_ID:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "The topic has no id, by which brokers would know it."
        )
    if ctx.is_queued_for_deletion(topic):
        return KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if not ctx.config.delete_topic_enable:
        return KafkaError(
            ErrorCode.TOPIC_DELETION_DISABLED,
            "delete.topic.enable is false, and a resize ends the old topic.",
        )
    if ctx.rename_of(topic) is not None:
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The topic is being renamed: try again.")
    # A resize is known by the id, which a topic that is back from the trash has kept.
    earlier = ctx.resizes.get(ctx.topic_ids[topic])
    if earlier is not None and earlier.stored.topic != topic:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"The resize that gave the name '{earlier.stored.topic}' to another topic is not done"
            " yet: try again when it is.",
        )
    if any(tp.topic == topic for tp in ctx.partitions_being_reassigned):
        return KafkaError(
            ErrorCode.REASSIGNMENT_IN_PROGRESS,
            "Partitions of the topic are being moved: resize it when they have arrived.",
        )
    return None


def _of_shape(
    ctx: ControllerContext, topic: str, partitions: int, factor: int, partitioner: str
) -> KafkaError | None:
    old = len(ctx.topic_assignment(topic))
    known = ", ".join(sorted(Partitioner))
    if partitioner not in set(Partitioner):
        return KafkaError(
            ErrorCode.INVALID_REQUEST, f"There is no partitioner '{partitioner}': {known}."
        )
    if partitions < 1:
        return KafkaError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."
        )
    if max(partitions, old) > MAX_PARTITIONS:
        return KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"A topic of more than {MAX_PARTITIONS} partitions cannot be resized.",
        )
    if factor < 1:
        return KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."
        )
    if partitions == old and factor == replication_factor(ctx, topic):
        return KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Topic '{topic}' has {old} partitions and replication factor {factor} already.",
        )
    if len(ctx.resizes) >= MAX_RESIZES:
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, f"{len(ctx.resizes)} resizes are under way: try again."
        )
    return None


def replication_factor(ctx: ControllerContext, topic: str) -> int:
    """As tools show it: that of the first partition."""
    first = min(ctx.topic_assignment(topic).items(), default=None)
    return 0 if first is None else len(first[1].replicas)


def of_brokers(ctx: ControllerContext, topic: str) -> KafkaError | None:
    hosts = {
        broker_id
        for assignment in ctx.topic_assignment(topic).values()
        for broker_id in assignment.replicas
    }
    # Also one without a replica: it may be elected controller halfway, or coordinate groups.
    concerned = hosts | ctx.brokers.keys()
    strangers = concerned - ctx.ottla_brokers
    if strangers:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Brokers {_join(strangers)} are not Ottla's and do not know of resizes: copy the topic"
            " to another name instead (--to NAME), or resize it when the cluster is all Ottla's.",
        )
    old = concerned - ctx.resizing_brokers
    if old:
        return KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Brokers {_join(old)} run an Ottla that does not know of resizes: upgrade them first.",
        )
    return None


def of_leaders(ctx: ControllerContext, topics: Collection[str]) -> KafkaError | None:
    """What a leader or coordinator that is away knows could get lost."""
    for topic in sorted({*topics, *names.INTERNAL_TOPICS}):
        for tp in ctx.partitions_of(topic):
            state = ctx.leadership.get(tp)
            if state is None or not ctx.is_online(state.leader, tp):
                return KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"{tp} has no leader: try again when it has."
                )
    return None


def of_offsets(partitions: int, groups: Sequence[GroupOffsets]) -> KafkaError | None:
    """What groups are to go on at, in a topic of so many partitions."""
    if sum(len(offsets) for _, offsets in groups) > MAX_OFFSETS:
        return KafkaError(ErrorCode.INVALID_REQUEST, f"More than {MAX_OFFSETS} offsets of groups.")
    for group_id, offsets in groups:
        if any(offset < 0 or not 0 <= p < partitions for p, offset in offsets.items()):
            return KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Group '{group_id}' is to go on at a place that the new topic has not.",
            )
    return None


def _join(broker_ids: Collection[int]) -> str:
    return ", ".join(map(str, sorted(broker_ids)))
