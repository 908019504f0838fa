"""What requests to brokers and their answers say: as lifecycle events, a topic at a time, and as
lines of the state-change log (kafka.controller.ControllerBrokerRequestBatch)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.metadata.znodes import LEADER_DURING_DELETE
from ottla.state_changes import TRACE
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.controller.steps import ControlRequest
    from ottla.wire.codec import Message

    LeaderAndIsrState = m.LeaderAndIsrRequest.LeaderAndIsrPartitionState

# A request about more topics than this is one event: at a failover all are named. No topic can have
# the name that it goes by.
MAX_TOPICS_TOLD = 100
MANY_TOPICS = "*"
# A request with more partitions than this has its line in the log, but none for each partition.
MAX_PARTITIONS_TRACED = 1_000
_MAX_NUMBERS = 20


class TopicWords(NamedTuple):
    """What a request or an answer says of one topic, or of MANY_TOPICS, or of brokers alone."""

    topic: str | None
    words: str
    error: str | None = None


def name_of(message: Message) -> str:
    """LeaderAndIsr, UpdateMetadata or StopReplica."""
    return type(message).__name__.removesuffix("Request")


def request_by_topic(request: ControlRequest) -> list[TopicWords]:
    message: Any = request.message
    topics = message.topic_states
    if not topics:
        return [TopicWords(None, "live brokers only")]
    if len(topics) > MAX_TOPICS_TOLD:
        return [TopicWords(MANY_TOPICS, f"{len(topics)} topics")]
    return [
        TopicWords(topic.topic_name, _words(request, topic.partition_states)) for topic in topics
    ]


def _words(request: ControlRequest, states: Sequence[Any]) -> str:
    parts: dict[str, list[int]] = {}
    for state in states:
        if isinstance(request.message, m.LeaderAndIsrRequest):
            verb = "lead" if state.leader == request.broker_id else "follow"
        elif isinstance(request.message, m.StopReplicaRequest):
            verb = "delete" if state.delete_partition else "stop"
        else:
            verb = "forget" if state.leader == LEADER_DURING_DELETE else "know"
        parts.setdefault(verb, []).append(state.partition_index)
    return "; ".join(f"{verb} {_numbers(listed)}" for verb, listed in sorted(parts.items()))


def _numbers(partitions: Sequence[int]) -> str:
    if len(partitions) > _MAX_NUMBERS:
        return f"{len(partitions)} partitions"
    kind = "partition" if len(partitions) == 1 else "partitions"
    return f"{kind} {','.join(map(str, sorted(partitions)))}"


def error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"code {code}"


def answer_by_topic(request: Any, response: Any) -> list[TopicWords]:
    """What was answered to each topic of the request, with the errors of its partitions."""
    topics = request.topic_states
    error = error_name(response.error_code)
    if not topics:
        return [TopicWords(None, "live brokers only", error)]
    if len(topics) > MAX_TOPICS_TOLD:
        return [TopicWords(MANY_TOPICS, f"{len(topics)} topics", error)]
    refused = dict(_refused(request, response))
    return [
        _answer(topic.topic_name, response.error_code, refused.get(topic.topic_name, {}))
        for topic in topics
    ]


def _answer(topic: str, top_level: int, refused: dict[int, list[int]]) -> TopicWords:
    if top_level or not refused:
        return TopicWords(topic, "", error_name(top_level))
    words = "; ".join(f"{error_name(code)} for {_numbers(ps)}" for code, ps in refused.items())
    return TopicWords(topic, words, error_name(next(iter(refused))))


def _refused(request: Message, response: Any) -> Iterator[tuple[str, dict[int, list[int]]]]:
    """By topic: error code -> partitions."""
    if isinstance(request, m.LeaderAndIsrRequest):
        names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
        for topic in response.topics:
            name = names.get(topic.topic_id)
            if name is not None:
                yield name, _by_code(topic.partition_errors)
    elif isinstance(request, m.StopReplicaRequest):
        by_topic: dict[str, list[Any]] = {}
        for error in response.partition_errors:
            by_topic.setdefault(error.topic_name, []).append(error)
        for name, errors in by_topic.items():
            yield name, _by_code(errors)


def _by_code(errors: Iterable[Any]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for error in errors:
        if error.error_code != ErrorCode.NONE:
            found.setdefault(error.error_code, []).append(error.partition_index)
    return found


def log_lines(requests: Sequence[ControlRequest], *, traced: bool) -> Iterator[tuple[int, str]]:
    """Levels and lines of the state-change log; those of single partitions only if `traced`."""
    told: list[int] = []
    for index, request in enumerate(requests):
        message: Any = request.message
        count = sum(len(topic.partition_states) for topic in message.topic_states)
        of_partitions = traced and count <= MAX_PARTITIONS_TRACED
        if isinstance(message, m.LeaderAndIsrRequest):
            yield from _leader_and_isr_lines(request.broker_id, message, count, of_partitions)
        elif isinstance(message, m.StopReplicaRequest):
            yield from _stop_replica_lines(request.broker_id, message, count, of_partitions)
        else:
            # The same for all brokers, and one line for all of them.
            told.append(request.broker_id)
            following = requests[index + 1 : index + 2]
            if not (following and isinstance(following[0].message, m.UpdateMetadataRequest)):
                brokers = ", ".join(map(str, told))
                line = f"Sending UpdateMetadata request to brokers HashSet({brokers})"
                yield logging.INFO, f"{line} for {count} partitions"


def _leader_and_isr_lines(
    broker_id: int, message: m.LeaderAndIsrRequest, count: int, of_partitions: bool
) -> Iterator[tuple[int, str]]:
    leaders = 0
    for topic in message.topic_states:
        for state in topic.partition_states:
            leads = state.leader == broker_id
            leaders += leads
            if of_partitions:
                role = "become-leader" if leads else "become-follower"
                yield (
                    TRACE,
                    f"Sending {role} LeaderAndIsr request"
                    f" {_leader_and_isr_state(topic.topic_name, state)} to broker {broker_id} for"
                    f" partition {topic.topic_name}-{state.partition_index}",
                )
    yield (
        logging.INFO,
        f"Sending LeaderAndIsr request to broker {broker_id} with {leaders} become-leader and"
        f" {count - leaders} become-follower partitions",
    )


def _leader_and_isr_state(topic: str, state: LeaderAndIsrState) -> str:
    return (
        f"LeaderAndIsrPartitionState(topicName='{topic}', partitionIndex={state.partition_index},"
        f" controllerEpoch={state.controller_epoch}, leader={state.leader},"
        f" leaderEpoch={state.leader_epoch}, isr={state.isr}, zkVersion={state.partition_epoch},"
        f" replicas={state.replicas}, addingReplicas={state.adding_replicas},"
        f" removingReplicas={state.removing_replicas}, isNew={str(state.is_new).lower()})"
    )


def _stop_replica_lines(
    broker_id: int, message: m.StopReplicaRequest, count: int, of_partitions: bool
) -> Iterator[tuple[int, str]]:
    for topic in message.topic_states if of_partitions else ():
        for state in topic.partition_states:
            yield (
                TRACE,
                "Sending StopReplica request StopReplicaPartitionState("
                f"partitionIndex={state.partition_index}, leaderEpoch={state.leader_epoch},"
                f" deletePartition={str(state.delete_partition).lower()}) to broker {broker_id}"
                f" for partition {topic.topic_name}-{state.partition_index}",
            )
    yield logging.INFO, f"Sending StopReplica request for {count} replicas to broker {broker_id}"
