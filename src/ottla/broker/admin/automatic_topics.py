"""Topics that come into being without a CreateTopics request of a client.

Two ways: a Metadata request for an unknown topic, and FindCoordinator's need for an internal one.
The controller creates them itself; any other broker asks the controller with a CreateTopics
request of its own (Kafka's AutoTopicCreationManager; Kafka 2.8 would let every broker write).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol, cast

from ottla.bounds.turns import Turns
from ottla.broker.notes.topic_notes import Asker, TopicNotes
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import StoreError
from ottla.topics import names
from ottla.topics.validation import MAX_PARTITIONS_PER_REQUEST
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.membership.ports import ControllerClient, ControllerPort
    from ottla.config.broker import BrokerConfig

logger = logging.getLogger(__name__)

# Below 6, from where on a quota on mutations would refuse the topic (KIP-599).
_CREATE_TOPICS_VERSION = 5
_MAX_CREATIONS_UNDER_WAY = 10_000
# Between two tries to reach a controller.
_RETRY_PAUSE_S = 0.1


class CreateTopics(Protocol):
    """`TopicAdmin.create_topics`."""

    def __call__(
        self, topics: Sequence[m.CreateTopicsRequest.CreatableTopic], *, timeout_ms: int
    ) -> Awaitable[list[m.CreateTopicsResponse.CreatableTopicResult]]: ...


_ASKER = Asker("auto-creation")

# Which of these topics the store holds; StoreError where it cannot be asked.
StoredTopics = Callable[[Sequence[str]], Awaitable[Container[str]]]


def is_legal(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        names.validate(name)
    except KafkaError:
        return False
    return True


def automatic_topic(config: BrokerConfig, name: str) -> m.CreateTopicsRequest.CreatableTopic:
    """AutoTopicCreationManager.creatableTopic."""
    if name == names.OFFSETS_TOPIC:
        partitions = config.integer("offsets.topic.num.partitions")
        factor = config.integer("offsets.topic.replication.factor")
        configs = {
            "compression.type": "producer",
            "cleanup.policy": "compact",
            "segment.bytes": str(config.integer("offsets.topic.segment.bytes")),
        }
    elif name == names.TRANSACTIONS_TOPIC:
        partitions = config.integer("transaction.state.log.num.partitions")
        factor = config.integer("transaction.state.log.replication.factor")
        configs = {
            "compression.type": "uncompressed",
            "cleanup.policy": "compact",
            "min.insync.replicas": str(config.integer("transaction.state.log.min.isr")),
            "segment.bytes": str(config.integer("transaction.state.log.segment.bytes")),
            "unclean.leader.election.enable": "false",
        }
    else:
        partitions = config.integer("num.partitions")
        factor = config.integer("default.replication.factor")
        configs = {}
    return m.CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        configs=[
            m.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
            for key, value in configs.items()
        ],
    )


class AutomaticTopics:
    """Asks for topics, each at most once at a time."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata_cache: MetadataCache,
        controller: ControllerPort,
        controller_client: ControllerClient,
        create_topics: CreateTopics,
        stored_topics: StoredTopics,
        notes: TopicNotes,
    ) -> None:
        self._notes = notes
        self._config = config
        self._cache = metadata_cache
        self._controller = controller
        self._controller_client = controller_client
        self._create_topics = create_topics
        self._turns = Turns()
        self._stored_topics = stored_topics
        # Topics whose creation this broker asked for and has not heard the end of.
        self._being_created: set[str] = set()
        self._requests: set[asyncio.Task[None]] = set()

    async def missing_topics(self, topics: Sequence[str], *, create: bool) -> dict[str, ErrorCode]:
        """What a Metadata answer says of topics that are not in the cache.

        Where `create` and auto.create.topics.enable allow it they are created: by the controller
        itself (LEADER_NOT_AVAILABLE until they have leaders), by any other broker through a
        CreateTopics request to the controller (UNKNOWN_TOPIC_OR_PARTITION until they show).
        """
        codes = {
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if is_legal(name)
            else ErrorCode.INVALID_TOPIC_EXCEPTION
            async for name in self._turns.each(topics)
        }
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        legal = [name for name, code in codes.items() if code is unknown]
        unheard_of = await self._stored_but_unheard_of(legal)
        codes.update(dict.fromkeys(unheard_of, ErrorCode.LEADER_NOT_AVAILABLE))
        if create and self._config.boolean("auto.create.topics.enable"):
            # Not one that its topic has just given up: whoever asks for it has not heard of that.
            new = [
                name
                for name in legal
                if name not in unheard_of and not self._cache.was_renamed(name)
            ]
            codes.update(await self._create_automatically(new))
        return codes

    async def _stored_but_unheard_of(self, topics: Sequence[str]) -> set[str]:
        """The topics that exist although no controller has told this broker of any topic yet.

        A broker that has just started is in that state for a moment, and for as long as a session
        lasts where the controller died. Kafka calls the topics unknown then, which a librdkafka
        producer takes for the end of the topic and of all records that wait for it.
        """
        if not topics or self._cache.topic_names():
            return set()
        try:
            stored = await self._stored_topics(topics)
        except StoreError as error:
            logger.info("the store could not be asked for topics: %r", error)
            return set(topics)
        return {name for name in topics if name in stored}

    async def ensure_internal_topic(self, name: str) -> None:
        """Has `__consumer_offsets` or `__transaction_state` created; does not wait for it.

        Does so whatever auto.create.topics.enable says, as Kafka's FindCoordinator does.
        """
        if not self._cache.contains_topic(name):
            await self._create_automatically([name])

    async def _create_automatically(self, topics: Sequence[str]) -> dict[str, ErrorCode]:
        room = _MAX_CREATIONS_UNDER_WAY - len(self._being_created)
        new = [name for name in topics if name not in self._being_created][:room]
        if not new:
            return {}
        wanted = _within_bound([automatic_topic(self._config, name) for name in new])
        new = [topic.name for topic in wanted]
        self._being_created.update(new)
        if not self._controller.is_active:
            for topic in wanted:
                self._notes.asked(topic.name, range(topic.num_partitions), _ASKER)
            loop = asyncio.get_running_loop()
            task = loop.create_task(self._ask_controller(wanted), name="automatic-topics")
            self._requests.add(task)
            task.add_done_callback(self._requests.discard)
            return {}
        try:
            results = await self._create_topics(wanted, timeout_ms=0)
        finally:
            self._being_created.difference_update(new)
        # No time was given: code 7 is a topic that was written and has no leaders yet.
        created = {r.name for r in results if r.error_code == ErrorCode.REQUEST_TIMED_OUT}
        _log_creations([topic for topic in wanted if topic.name in created])
        under_way = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.TOPIC_ALREADY_EXISTS)
        return {
            result.name: ErrorCode.LEADER_NOT_AVAILABLE
            if result.error_code in under_way
            else ErrorCode(result.error_code)
            for result in results
        }

    async def _ask_controller(self, topics: list[m.CreateTopicsRequest.CreatableTopic]) -> None:
        """Asks whoever is the controller until one has answered for every topic.

        In Kafka 2.8 the broker writes the topic itself and the next controller finds it; here the
        next controller has to be asked again if the old one died, or stood still, with the request.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.integer("request.timeout.ms") / 1000
        open_topics = {topic.name: topic for topic in topics}
        problem = ""
        try:
            while open_topics and (left_ms := int((deadline - loop.time()) * 1000)) > 0:
                request = m.CreateTopicsRequest(
                    topics=list(open_topics.values()), timeout_ms=left_ms
                )
                try:
                    response = await self._controller_client.send(
                        request, _CREATE_TOPICS_VERSION, timeout_ms=left_ms
                    )
                except (OSError, TimeoutError) as error:
                    problem = str(error)
                else:
                    problem = ErrorCode.NOT_CONTROLLER.name
                    results = cast("m.CreateTopicsResponse", response).topics
                    self._take_answers(open_topics, results)
                if open_topics:
                    await asyncio.sleep(_RETRY_PAUSE_S)
        finally:
            self._being_created.difference_update(topic.name for topic in topics)
        if open_topics:
            names_left = ", ".join(open_topics)
            logger.info("the controller could not be asked to create %s: %s", names_left, problem)

    def _take_answers(
        self,
        open_topics: dict[str, m.CreateTopicsRequest.CreatableTopic],
        results: Sequence[m.CreateTopicsResponse.CreatableTopicResult],
    ) -> None:
        """Takes out the topics that were dealt with, and tells what became of them."""
        for result in results:
            if result.error_code == ErrorCode.NOT_CONTROLLER:
                continue
            topic = open_topics.pop(result.name, None)
            self._being_created.discard(result.name)
            if topic is not None and result.error_code == ErrorCode.NONE:
                _log_creations([topic])
            elif result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.warning(
                    "the controller did not create topic %s: code %d %s",
                    result.name,
                    result.error_code,
                    result.error_message or "",
                )

    async def close(self) -> None:
        """Gives up requests to the controller that are still under way."""
        for task in tuple(self._requests):
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)


def _within_bound(
    topics: list[m.CreateTopicsRequest.CreatableTopic],
) -> list[m.CreateTopicsRequest.CreatableTopic]:
    """As many as one request may ask for; those who asked for the others ask again."""
    totals = accumulate(topic.num_partitions for topic in topics)
    return [
        topic
        for topic, total in zip(topics, totals, strict=True)
        if total <= MAX_PARTITIONS_PER_REQUEST
    ]


def _log_creations(topics: Sequence[m.CreateTopicsRequest.CreatableTopic]) -> None:
    for topic in topics:
        logger.info(
            "Auto creation of topic %s with %d partitions and replication factor %d is successful",
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
        )
