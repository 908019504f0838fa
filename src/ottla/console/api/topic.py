"""The page of one topic: its partitions, how it grows, how it goes, who reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from ottla.client.admin.groups import GroupAdmin, GroupListing
from ottla.client.admin.types import ConfigResource, NewPartitions
from ottla.client.cluster import response_error
from ottla.console import commands
from ottla.console.api.topics import Assignment, Int32, at_field
from ottla.console.picture import fresh_picture
from ottla.console.topic_numbers import TIMEOUT_MS, offsets_of, replica_sizes
from ottla.console.web.failures import from_exception
from ottla.console.web.live import Snapshots
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.topics import names
from ottla.topics.assignment import BrokerMetadata
from ottla.topics.configs import DELETE_RETENTION
from ottla.topics.validation import ExpansionRequest, plan_expansion
from ottla.types import ZERO_TOPIC_ID, TopicPartition, format_topic_id
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.console.web.live import Source

POLL_S = 2.0
# Groups that are looked into for a topic, and how many at a time.
MAX_GROUPS = 2_000
_GROUPS_AT_ONCE = 8
# Of brokers or rights that do not tell of moves: then there are none to show.
_HIDES_MOVES = (ErrorCode.UNSUPPORTED_VERSION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


class Partition(msgspec.Struct):
    """`leader` is -1 where nobody leads; `adding` and `removing` are moves under way."""

    partition: int
    leader: int
    epoch: int
    replicas: list[int]
    in_sync: list[int]
    offline: list[int]
    adding: list[int]
    removing: list[int]


class TopicBroker(msgspec.Struct):
    id: int
    host: str
    port: int
    rack: str | None


class Topic(msgspec.Struct):
    name: str
    topic_id: str | None
    internal: bool
    partitions: list[Partition]
    brokers: list[TopicBroker]


class PartitionNumbers(msgspec.Struct):
    """`size` is the leader's log; null where the brokers do not say."""

    partition: int
    begin: int | None
    end: int | None
    size: int | None
    all_replicas_size: int


class TopicNumbers(msgspec.Struct):
    partitions: list[PartitionNumbers]
    problems: list[str]


class Expansion(msgspec.Struct):
    """`assignment` has the brokers of each new partition; null lets the cluster place them."""

    total: Int32
    assignment: Assignment | None = None


class NewPartition(msgspec.Struct):
    partition: int
    replicas: list[int]


class ExpansionPlan(msgspec.Struct):
    """Where Kafka 2.8's placement, which goes on from partition 0, puts the new partitions."""

    present: int
    partitions: list[NewPartition]


class Expanded(msgspec.Struct):
    name: str
    partitions: int


class Doomed(msgspec.Struct):
    """What a deletion takes along; `brokers` have a replica. `kept_ms` is how long it can be
    brought back, 0 where it is gone for good."""

    partitions: int
    bytes: int
    brokers: list[int]
    kept_ms: int = 0


class BrokersQuery(msgspec.Struct):
    """Ids with commas between them: those that had a replica."""

    brokers: Annotated[str, Meta(max_length=20_000, pattern=r"^(\d{1,9}(,\d{1,9})*)?$")] = ""


class Remains(msgspec.Struct):
    """What a broker still has of a topic; `answers` is false for one that cannot be asked."""

    broker: int
    answers: bool
    in_metadata: bool
    folders: int
    bytes: int


class Deletion(msgspec.Struct):
    is_over: bool
    brokers: list[Remains]


class Reader(msgspec.Struct):
    """A group that has committed offsets of the topic, or has members that read it now. `lag` is
    null where it cannot be said."""

    group: str
    state: str
    members: int
    committed: int
    lag: int | None


class Readers(msgspec.Struct):
    groups: list[Reader]
    looked_at: int
    hidden: int


def _name(call: Call) -> str:
    """Raises KafkaError for one that no topic can have: it is not sent anywhere."""
    name = call.path["name"]
    names.validate(name)
    return name


async def _metadata(call: Call, name: str) -> tuple[m.MetadataResponse, Any]:
    answer = await call.admin.cluster.metadata([name])
    for topic in answer.topics:
        if topic.name == name:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise response_error(topic.error_code)
            return answer, topic
    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def topic(call: Call) -> Topic:
    return await _topic(call, _name(call))


async def _topic(call: Call, name: str) -> Topic:
    answer, found = await _metadata(call, name)
    ordered = sorted(found.partitions, key=lambda partition: partition.partition_index)
    moves = {}
    try:
        moves = await call.admin.list_reassignments(
            [TopicPartition(name, partition.partition_index) for partition in ordered]
        )
    except KafkaError as error:
        if error.code not in _HIDES_MOVES:
            raise
    partitions = []
    for p in ordered:
        move = moves.get(TopicPartition(name, p.partition_index))
        adding, removing = ([], []) if move is None else (move.adding, move.removing)
        partitions.append(
            Partition(
                p.partition_index,
                p.leader_id,
                p.leader_epoch,
                p.replica_nodes,
                p.isr_nodes,
                p.offline_replicas,
                adding,
                removing,
            )
        )
    brokers = [TopicBroker(b.node_id, b.host, b.port, b.rack) for b in answer.brokers]
    topic_id = found.topic_id
    return Topic(
        name,
        None if not topic_id or topic_id == ZERO_TOPIC_ID else format_topic_id(topic_id),
        found.is_internal,
        partitions,
        sorted(brokers, key=lambda broker: broker.id),
    )


async def numbers(call: Call) -> TopicNumbers:
    name = _name(call)
    answer, found = await _metadata(call, name)
    leaders = {p.partition_index: p.leader_id for p in found.partitions}
    led = {TopicPartition(name, p): leader for p, leader in leaders.items() if leader >= 0}
    alive = {broker.node_id for broker in answer.brokers}
    holding = sorted(alive & _replicas(found))
    (offsets, problems), (sizes, more) = await asyncio.gather(
        offsets_of(call.admin, led), replica_sizes(call.admin, holding, name, sorted(leaders))
    )
    totals: dict[int, int] = {}
    for (partition, _), size in sizes.items():
        totals[partition] = totals.get(partition, 0) + size
    return TopicNumbers(
        [
            PartitionNumbers(
                partition,
                *offsets.get(TopicPartition(name, partition), (None, None)),
                sizes.get((partition, leaders[partition])),
                totals.get(partition, 0),
            )
            for partition in sorted(leaders)
        ],
        list(dict.fromkeys([*problems, *more])),
    )


def _replicas(found: Any) -> set[int]:
    return {broker for partition in found.partitions for broker in partition.replica_nodes}


async def _plan(call: Call) -> tuple[Any, dict[int, list[int]]]:
    name = _name(call)
    form: Expansion = call.body
    answer, found = await _metadata(call, name)
    brokers = sorted(BrokerMetadata(b.node_id, b.rack) for b in answer.brokers)
    existing = {p.partition_index: p.replica_nodes for p in found.partitions}
    request = ExpansionRequest(name, form.total, form.assignment)
    try:
        return found, plan_expansion(request, existing=existing, brokers=brokers, random=Random())
    except KafkaError as error:
        raise from_exception(error, _expansion_field(error)) or error from None


def _expansion_field(error: KafkaError) -> str | None:
    if error.code is ErrorCode.INVALID_PARTITIONS:
        return "total"
    if error.code in (ErrorCode.INVALID_REPLICA_ASSIGNMENT, ErrorCode.BROKER_NOT_AVAILABLE):
        return "assignment"
    return None


async def _expand(call: Call, *, validate_only: bool) -> None:
    name, form = _name(call), call.body
    answers = await call.admin.create_partitions(
        {name: NewPartitions(form.total, form.assignment)}, validate_only=validate_only
    )
    error = answers.get(name)
    if error is not None:
        raise from_exception(error, _expansion_field(error)) or error


async def check_expansion(call: Call) -> ExpansionPlan:
    found, placed = await _plan(call)
    await _expand(call, validate_only=True)
    return ExpansionPlan(
        len(found.partitions),
        [NewPartition(partition, replicas) for partition, replicas in sorted(placed.items())],
    )


async def expand(call: Call) -> Expanded:
    await _expand(call, validate_only=False)
    await fresh_picture(call.access)
    return Expanded(_name(call), call.body.total)


def _expand_commands(call: Call) -> Sequence[str]:
    form: Expansion = call.body
    added = form.assignment
    present: list[list[int]] = []
    if added:
        # Partitions that exist stand first in the list, whoever has them: it is not looked at.
        present = [added[0]] * max(0, form.total - len(added))
    return [commands.expand_topic(call.settings, _name(call), form.total, present, added)]


async def doomed(call: Call) -> Doomed:
    name = _name(call)
    answer, found = await _metadata(call, name)
    alive = {broker.node_id for broker in answer.brokers}
    holding = _replicas(found)
    partitions = [partition.partition_index for partition in found.partitions]
    sizes, _ = await replica_sizes(call.admin, sorted(alive & holding), name, partitions)
    kept_ms = await _kept_ms(call, name)
    return Doomed(len(partitions), sum(sizes.values()), sorted(holding), kept_ms)


async def _kept_ms(call: Call, name: str) -> int:
    """By its config, which Apache Kafka does not have and some may not see."""
    resource = ConfigResource.topic(name)
    answer = (await call.admin.describe_configs([resource]))[resource]
    if isinstance(answer, KafkaError):
        return 0
    values = [item.value for item in answer if item.name == DELETE_RETENTION and item.value]
    return int(values[0]) if values else 0


async def delete(call: Call) -> Doomed:
    told = await doomed(call)
    error = (await call.admin.delete_topics([told_name := _name(call)])).get(told_name)
    if error is not None:
        raise at_field(error)
    await fresh_picture(call.access)
    return told


def _delete_commands(call: Call) -> Sequence[str]:
    return [commands.delete_topic(call.settings, _name(call))]


async def deletion(call: Call) -> Deletion:
    """Until the last folder is gone: what every broker still knows and still has."""
    name = _name(call)
    had = {int(text) for text in call.query.brokers.split(",") if text}
    alive = {node.id for node in (await call.admin.describe_cluster()).nodes}
    asked = sorted(had | alive)
    found = await asyncio.gather(*(_remains(call, broker, name, alive) for broker in asked))
    # Brokers that never had a replica are told of only while they still know the topic.
    told = [one for one in found if one.broker in had or one.in_metadata or one.folders]
    return Deletion(
        all(one.answers and not one.in_metadata and not one.folders for one in told), told
    )


async def _remains(call: Call, broker: int, name: str, alive: set[int]) -> Remains:
    if broker not in alive:
        return Remains(broker, False, False, 0, 0)
    try:
        known = await call.admin.topics_known_to(broker, [name])
        dirs = await call.admin.describe_log_dirs(broker)
    except (KafkaError, OSError):
        return Remains(broker, False, False, 0, 0)
    held = [r for one in dirs.values() for r in one.replicas if r.partition.topic == name]
    return Remains(broker, True, name in known, len(held), sum(replica.size for replica in held))


async def readers(call: Call) -> Readers:
    """Groups one by one, some at a time: a page asks for it when somebody wants to know."""
    name = _name(call)
    _, found = await _metadata(call, name)
    led = {
        TopicPartition(name, p.partition_index): p.leader_id
        for p in found.partitions
        if p.leader_id >= 0
    }
    groups = GroupAdmin(call.admin.cluster, timeout_ms=TIMEOUT_MS)
    (offsets, _), listed = await asyncio.gather(offsets_of(call.admin, led), groups.list_groups())
    ends = {partition: end for partition, (_, end) in offsets.items() if end is not None}
    gate = asyncio.Semaphore(_GROUPS_AT_ONCE)
    some = listed[:MAX_GROUPS]
    answers = await asyncio.gather(*(_reader(groups, one, name, ends, gate) for one in some))
    hidden = sum(isinstance(answer, KafkaError) for answer in answers)
    return Readers(
        [answer for answer in answers if isinstance(answer, Reader)],
        len(some),
        hidden + len(listed) - len(some),
    )


async def _reader(
    groups: GroupAdmin,
    listed: GroupListing,
    topic_name: str,
    ends: dict[TopicPartition, int],
    gate: asyncio.Semaphore,
) -> Reader | KafkaError | None:
    async with gate:
        try:
            committed = await groups.committed_offsets(listed.group_id)
            described = await groups.describe_group(listed.group_id)
        except KafkaError as error:
            return error  # not the reader's to see, or its coordinator is away
    own = {p: offset for p, offset in committed.items() if p.topic == topic_name}
    members = sum(_reads(member.partitions, topic_name) for member in described.members)
    if not own and not members:
        return None
    lag = sum(max(0, ends[p] - offset) for p, offset in own.items() if p in ends)
    is_known = bool(own) and all(p in ends for p in own)
    return Reader(
        listed.group_id,
        described.state if described.state != "Dead" else listed.state or "Unknown",
        members,
        len(own),
        lag if is_known else None,
    )


def _reads(partitions: Iterable[TopicPartition], topic_name: str) -> bool:
    return any(partition.topic == topic_name for partition in partitions)


class TopicQuery(msgspec.Struct):
    name: Annotated[str, Meta(max_length=1_000)]


def _open(call: Call) -> Source:
    name = call.query.name

    async def take() -> Topic:
        names.validate(name)  # here, so that the stream tells of it: a browser hides why one failed
        return await _topic(call, name)

    return Snapshots(take)


ROUTES: list[Any] = [
    Route("GET", "/topics/{name}", topic, "A topic and its partitions", answer=Topic),
    Route(
        "GET", "/topics/{name}/numbers", numbers, "Offsets and sizes of its partitions",
        answer=TopicNumbers,
    ),
    Route("GET", "/topics/{name}/groups", readers, "Groups that read it", answer=Readers),
    Route(
        "POST", "/topics/{name}/partitions", expand, "Give it more partitions",
        body=Expansion, answer=Expanded, commands=_expand_commands, preview=check_expansion,
    ),
    Route(
        "DELETE", "/topics/{name}", delete, "Delete it", answer=Doomed,
        commands=_delete_commands, preview=doomed,
    ),
    Route(
        "GET", "/topics/{name}/deletion", deletion, "What is left of a topic that was deleted",
        query=BrokersQuery, answer=Deletion,
    ),
]  # fmt: skip
FEEDS = [Feed("topic", "A topic and its partitions", POLL_S, _open, TopicQuery, Topic)]
