"""The page Topics: what is there? The list, and how a topic is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from ottla.client.admin.types import NewTopic
from ottla.console import commands
from ottla.console.picture import Picture, fresh_picture, picture
from ottla.console.placement_steps import Drawing, draw
from ottla.console.topic_numbers import Records, Remembered, Sizes, all_records, all_sizes
from ottla.console.web.failures import from_exception, invalid
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode, KafkaError
from ottla.topics.assignment import BrokerMetadata
from ottla.topics.names import SHADOW_PREFIX
from ottla.topics.validation import MAX_PARTITIONS_PER_REQUEST

if TYPE_CHECKING:
    from ottla.console.web.live import Source

POLL_S = 3.0
SIZES_AGE_S = 10.0

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
# Kafka says what is wrong with shorter ones; these could not even be sent.
ShortText = Annotated[str, Meta(max_length=10_000)]
LongText = Annotated[str, Meta(max_length=32_000)]
Replicas = Annotated[list[Int32], Meta(max_length=1_000)]
Assignment = Annotated[list[Replicas], Meta(max_length=MAX_PARTITIONS_PER_REQUEST)]

_FIELDS = {
    ErrorCode.INVALID_TOPIC_EXCEPTION: "name",
    ErrorCode.TOPIC_ALREADY_EXISTS: "name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "name",
    ErrorCode.INVALID_PARTITIONS: "partitions",
    ErrorCode.INVALID_REPLICATION_FACTOR: "replication_factor",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "assignment",
    ErrorCode.BROKER_NOT_AVAILABLE: "assignment",
}


class BrokerSummary(msgspec.Struct, frozen=True):
    id: int
    rack: str | None


class TopicSummary(msgspec.Struct, frozen=True):
    """`replication_factor` is that of most partitions; `brokers` are all that have a replica."""

    name: str
    internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    without_leader: int
    brokers: list[int]


class TopicsNews(msgspec.Struct):
    """Topics that are new or have changed, names of those that are gone; the first has all."""

    brokers: list[BrokerSummary]
    partitions: int
    topics: list[TopicSummary]
    gone: list[str]


class NewTopicForm(msgspec.Struct):
    """Numbers that are null are the cluster's defaults; `assignment` takes their place: the brokers
    of each partition, the preferred leader first."""

    name: ShortText
    partitions: Int32 | None = None
    replication_factor: Int16 | None = None
    assignment: Assignment | None = None
    configs: dict[ShortText, LongText] = {}


class Created(msgspec.Struct):
    """-1 where an old broker does not say."""

    name: str
    partitions: int
    replication_factor: int


class Numbers(msgspec.Struct):
    """What to draw; a start index and a shift that are not given are drawn at random."""

    partitions: Annotated[int, Meta(ge=1, le=MAX_PARTITIONS_PER_REQUEST)] = 1
    replication_factor: Int16 = 1
    start_index: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    shift: Annotated[int, Meta(ge=0, le=100_000)] | None = None


class TopicsSource:
    """Tells what has changed since the last picture; whoever comes later gets all."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._picture: Picture | None = None
        self._known: dict[str, TopicSummary] = {}

    async def poll(self) -> TopicsNews | None:
        taken = await picture(self._call.access, POLL_S)
        if taken is self._picture:
            return None
        before, known = self._picture, self._known
        self._picture, self._known = taken, summaries(taken)
        changed = [new for name, new in self._known.items() if new != known.get(name)]
        gone = [name for name in known if name not in self._known]
        if before is not None and not changed and not gone and before.brokers == taken.brokers:
            return None
        return _news(taken, changed, gone)

    def whole(self) -> TopicsNews | None:
        if self._picture is None:
            return None
        return _news(self._picture, list(self._known.values()), [])


def summaries(taken: Picture) -> dict[str, TopicSummary]:
    found = {}
    for topic in taken.topics:
        replicas = [taken.replicas[entry] for entry in topic.entries]
        factors = [len(ids) for ids in replicas]
        found[topic.name] = TopicSummary(
            topic.name,
            topic.is_internal or topic.name.startswith(SHADOW_PREFIX),
            topic.count,
            max(factors, key=factors.count) if len(set(factors)) > 1 else (factors or [0])[0],
            sum(len(taken.in_sync[entry]) < len(taken.replicas[entry]) for entry in topic.entries),
            sum(taken.leaders[entry] < 0 for entry in topic.entries),
            sorted(set().union(*replicas)),
        )
    return found


def _news(taken: Picture, changed: list[TopicSummary], gone: list[str]) -> TopicsNews:
    brokers = [BrokerSummary(node.id, node.rack) for node in taken.brokers]
    return TopicsNews(brokers, len(taken), changed, gone)


async def listing(call: Call) -> TopicsNews:
    taken = await picture(call.access, POLL_S)
    return _news(taken, list(summaries(taken).values()), [])


class _Sizes(Remembered[Sizes]):
    pass


class _Records(Remembered[Records]):
    pass


async def sizes(call: Call) -> Sizes:
    async def take() -> Sizes:
        taken = await picture(call.access, POLL_S)
        return await all_sizes(call.admin, sorted(taken.alive))

    return await call.access.keep(_Sizes, lambda: _Sizes(take, SIZES_AGE_S)).get()


async def records(call: Call) -> Records:
    async def take() -> Records:
        return await all_records(call.admin, await picture(call.access, POLL_S))

    return await call.access.keep(_Records, lambda: _Records(take, SIZES_AGE_S)).get()


async def drawing(call: Call) -> Drawing:
    wanted: Numbers = call.query
    taken = await picture(call.access, POLL_S)
    brokers = [BrokerMetadata(node.id, node.rack) for node in taken.brokers]
    try:
        return draw(
            brokers,
            wanted.partitions,
            wanted.replication_factor,
            random=Random(),
            start_index=wanted.start_index,
            shift=wanted.shift,
        )
    except KafkaError as error:
        raise at_field(error) from None


def at_field(error: KafkaError, configs: Mapping[str, str] = {}) -> Exception:
    """The same as an answer that names the field of the form which is at fault."""
    field = _FIELDS.get(error.code)
    if error.code is ErrorCode.INVALID_CONFIG:
        field = config_field(str(error), configs)
    return from_exception(error, field) or error


def config_field(message: str, configs: Mapping[str, str]) -> str:
    """Kafka names the config in its words; the longest name of those given that stands there."""
    named = [name for name in configs if name and name in message]
    return f"configs.{max(named, key=len)}" if named else "configs"


def _wanted(form: NewTopicForm) -> NewTopic:
    if form.assignment is not None:
        if not form.assignment:
            raise invalid("Name the brokers of at least one partition.", "assignment")
        assignments = dict(enumerate(form.assignment))
        return NewTopic(form.name, assignments=assignments, configs=form.configs)
    return NewTopic(
        form.name,
        -1 if form.partitions is None else form.partitions,
        -1 if form.replication_factor is None else form.replication_factor,
        configs=form.configs,
    )


async def _create(call: Call, *, validate_only: bool) -> Created:
    form: NewTopicForm = call.body
    answers = await call.admin.create_topics([_wanted(form)], validate_only=validate_only)
    answer = answers.get(form.name)
    if answer is None:  # a broker that answers about something else
        raise invalid("The cluster did not answer about this topic.", "name")
    if isinstance(answer, KafkaError):
        raise at_field(answer, form.configs)
    if form.assignment is not None:
        return Created(form.name, len(form.assignment), len(form.assignment[0]))
    return Created(form.name, answer.partitions, answer.replication_factor)


async def create(call: Call) -> Created:
    created = await _create(call, validate_only=False)
    await fresh_picture(call.access)
    return created


async def check_creation(call: Call) -> Created:
    """validate_only: the cluster's own word, before anything is made."""
    return await _create(call, validate_only=True)


def _create_commands(call: Call) -> Sequence[str]:
    form: NewTopicForm = call.body
    return commands.create_topic(
        call.settings,
        form.name,
        form.partitions,
        form.replication_factor,
        form.assignment,
        form.configs,
    )


def _open(call: Call) -> Source:
    return TopicsSource(call)


ROUTES: list[Any] = [
    Route("GET", "/topics", listing, "All topics", answer=TopicsNews),
    Route("GET", "/topic-sizes", sizes, "Bytes of all replicas of each topic", answer=Sizes),
    Route("GET", "/topic-records", records, "Records of each topic", answer=Records),
    Route(
        "GET", "/placement-steps", drawing, "Where replicas of a new topic would go, step by step",
        query=Numbers, answer=Drawing,
    ),
    Route(
        "POST", "/topics", create, "Create a topic", body=NewTopicForm, answer=Created,
        commands=_create_commands, preview=check_creation, max_body_bytes=2_000_000,
    ),
]  # fmt: skip
FEEDS = [Feed("topics", "All topics, then what changes", POLL_S, _open, message=TopicsNews)]
