"""A client's view of one cluster: bootstrap, version negotiation, who leads, who controls.

Every call ends within its time-out: brokers that cannot be reached and answers that say "ask
someone else" are tried again after a pause with fresh metadata. Works on Ottla and Apache Kafka.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.client.connection import Connection
from ottla.config.definitions import ConfigError
from ottla.errors import ErrorCode, HandshakeRefused, KafkaError
from ottla.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.runtime import Runtime
    from ottla.security.sasl.exchange import Credentials
    from ottla.wire.codec import Message

T = TypeVar("T")

DEFAULT_CLIENT_ID = "ottla"
DEFAULT_TIMEOUT_MS = 30_000
# How long to look for the first broker; a cluster that just starts deserves a few attempts.
BOOTSTRAP_TIMEOUT_MS = 3_000
RETRY_PAUSE_MS = 100
# How long one broker may say nothing before another is asked, within the time of a call: one whose
# host is gone refuses no connection, and its successor is in office long before a call is over.
REQUEST_TIMEOUT_MS = 10_000
# Metadata v4 brought allow_auto_topic_creation: looking at a topic must not create it.
_METADATA_MIN_VERSION = 4

RETRIABLE = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
# Another broker leads the partition, or soon will.
MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Node(NamedTuple):
    """A broker as Metadata names it."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


def parse_bootstrap(servers: str) -> list[Address]:
    """`host:port,host:port`, IPv6 hosts in brackets; raises ConfigError with Kafka's text."""
    addresses = []
    for item in (part.strip() for part in servers.split(",")):
        host, colon, port = item.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        if not (colon and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"Invalid url in bootstrap.servers: {item}")
        if not host or (":" in host and not bracketed):
            raise ConfigError(f"Invalid url in bootstrap.servers: {item}")
        addresses.append(Address(host[1:-1] if bracketed else host, int(port)))
    return addresses


def response_error(code: int, message: str | None = None) -> KafkaError:
    """The error a response carries; codes this side does not know become -1."""
    try:
        return KafkaError(ErrorCode(code), message)
    except ValueError:
        text = message or f"The server answered with the unknown error code {code}."
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class Channel:
    """A connection with the API versions its broker supports."""

    __slots__ = ("_connection", "_ranges", "address")

    def __init__(
        self, connection: Connection, ranges: dict[int, tuple[int, int]], address: Address
    ) -> None:
        self._connection = connection
        self._ranges = ranges
        self.address = address

    @classmethod
    async def open(
        cls,
        runtime: Runtime,
        address: Address,
        *,
        client_id: str,
        timeout_ms: float,
        credentials: Credentials | None = None,
    ) -> Channel:
        """Connects, asks for versions and says who this is. Raises OSError where no Kafka broker
        answers, KafkaError where it refuses the user, or one side the other's certificate."""
        async with asyncio.timeout(timeout_ms / 1000):
            try:
                connection = await Connection.open(
                    runtime.network, *address, client_id=client_id, timeout_ms=timeout_ms
                )
            except HandshakeRefused as error:
                raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)) from None
            try:
                # Version 0 is understood by every broker and already says all that is needed.
                answer = await connection.send(m.ApiVersionsRequest(), 0, timeout_ms=timeout_ms)
                if credentials is not None and not answer.error_code:
                    # Version 1 came with Kafka 2.2; brokers before it tell no lifetime.
                    newest = {api.api_key: api.max_version for api in answer.api_keys}
                    version = min(1, newest.get(m.SaslAuthenticateRequest.API_KEY, 0))
                    await connection.authenticate(credentials, version, timeout_ms=timeout_ms)
            except BaseException:
                connection.close()
                raise
        if answer.error_code:
            connection.close()
            raise ConnectionError(str(response_error(answer.error_code)))
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        return cls(connection, ranges, address)

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def version_for(
        self, message: Message, *, min_version: int = 0, max_version: int | None = None
    ) -> int:
        """The highest version that both sides know, within the caller's bounds."""
        low, high = self._ranges.get(message.API_KEY, (0, -1))
        low = max(low, message.MIN_VERSION, min_version)
        high = min(high, message.MAX_VERSION)
        if max_version is not None:
            high = min(high, max_version)
        if low > high:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The broker at {self.address} does not support a version of "
                f"{type(message).__name__} that can be used here.",
            )
        return high

    async def send(
        self,
        message: Message,
        *,
        timeout_ms: float,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        version = self.version_for(message, min_version=min_version, max_version=max_version)
        return await self._connection.send(message, version, timeout_ms=timeout_ms)

    def send_without_answer(
        self, message: Message, *, min_version: int = 0, max_version: int | None = None
    ) -> None:
        """For Produce with acks=0, the one request that is never answered."""
        version = self.version_for(message, min_version=min_version, max_version=max_version)
        self._connection.send_without_answer(message, version)

    def close(self) -> None:
        self._connection.close()


class Cluster:
    """Connections are opened when needed and shared; `close` ends them all."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap: str | Sequence[Address],
        *,
        client_id: str = DEFAULT_CLIENT_ID,
        bootstrap_timeout_ms: float = BOOTSTRAP_TIMEOUT_MS,
        request_timeout_ms: float = REQUEST_TIMEOUT_MS,
        credentials: Credentials | None = None,
    ) -> None:
        addresses = parse_bootstrap(bootstrap) if isinstance(bootstrap, str) else list(bootstrap)
        self._runtime = runtime
        self._bootstrap = [Address(*address) for address in addresses]
        self._client_id = client_id
        self._credentials = credentials
        self._bootstrap_timeout_ms = bootstrap_timeout_ms
        self.request_timeout_ms = request_timeout_ms
        self._channels: dict[Address, Channel] = {}
        self._opening: defaultdict[Address, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._nodes: dict[int, Node] = {}
        self._controller_id = -1
        self._leaders: dict[TopicPartition, int] = {}
        # The topic's id and the leader's epoch that were told with them.
        self._terms: dict[TopicPartition, tuple[TopicId, int]] = {}

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    async def metadata(
        self,
        topics: Iterable[str] | None = (),
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        may_create: bool = False,
    ) -> m.MetadataResponse:
        """Metadata of the named topics, of all with None, of none with an empty list. Brokers that
        create topics by themselves do so for these where they `may_create` them."""
        request = m.MetadataRequest(
            topics=None
            if topics is None
            else [m.MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=may_create,
        )
        answer: m.MetadataResponse = await self.send_to_any(
            request, timeout_ms=timeout_ms, min_version=_METADATA_MIN_VERSION, call="metadata"
        )
        self._learn(answer)
        return answer

    async def nodes(self, *, timeout_ms: float = DEFAULT_TIMEOUT_MS) -> list[Node]:
        """The alive brokers, by id."""
        await self.metadata(timeout_ms=timeout_ms)
        return [self._nodes[node] for node in sorted(self._nodes)]

    async def send_to_any(
        self,
        message: Message,
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        min_version: int = 0,
        max_version: int | None = None,
        call: str = "",
    ) -> Any:
        """To whichever broker can be reached, those in use first."""

        async def attempt(left_ms: float) -> Any:
            channel = await self._any_channel(min(left_ms, self._bootstrap_timeout_ms))
            return await channel.send(
                message,
                timeout_ms=min(left_ms, self.request_timeout_ms),
                min_version=min_version,
                max_version=max_version,
            )

        # Where no broker was ever reached there is nothing to wait for as long as a request may.
        limit_ms = timeout_ms if self._nodes else min(timeout_ms, self._bootstrap_timeout_ms)
        return await self._retry(attempt, timeout_ms, limit_ms, call or call_name(message))

    async def send_to_controller(
        self,
        message: Message,
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        min_version: int = 0,
        max_version: int | None = None,
        answer_ms: float | None = None,
        is_misdirected: Callable[[Any], bool] = lambda _: False,
        call: str = "",
    ) -> Any:
        """To the controller; `is_misdirected` tells an answer that asks for another broker.
        After `answer_ms` without an answer the controller is looked for again."""
        await self._find_nodes(timeout_ms, call or call_name(message))

        async def attempt(left_ms: float) -> Any:
            node = self._nodes.get(self._controller_id)
            if node is None:
                raise ConnectionError("there is no controller")
            channel = await self._channel(node.address, min(left_ms, self._bootstrap_timeout_ms))
            answer = await channel.send(
                message,
                timeout_ms=min(left_ms, answer_ms or left_ms),
                min_version=min_version,
                max_version=max_version,
            )
            if is_misdirected(answer):
                raise KafkaError(ErrorCode.NOT_CONTROLLER)
            return answer

        return await self._retry_refreshing(attempt, timeout_ms, call or call_name(message))

    async def send_to_broker(
        self,
        broker_id: int,
        message: Message,
        *,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
        min_version: int = 0,
        max_version: int | None = None,
    ) -> Any:
        call = call_name(message)
        await self._find_nodes(timeout_ms, call)

        async def attempt(left_ms: float) -> Any:
            node = self._nodes.get(broker_id)
            if node is None:
                raise ConnectionError(f"broker {broker_id} is not available")
            channel = await self._channel(node.address, left_ms)
            return await channel.send(
                message, timeout_ms=left_ms, min_version=min_version, max_version=max_version
            )

        return await self._retry_refreshing(attempt, timeout_ms, call)

    async def channel_to(self, broker_id: int, *, timeout_ms: float) -> Channel:
        """One attempt to reach a broker, for callers that look for another one themselves where
        it cannot be reached; raises OSError."""
        await self._find_nodes(timeout_ms, "metadata")
        node = self._nodes.get(broker_id)
        if node is None:
            raise ConnectionError(f"broker {broker_id} is not available")
        return await self._channel(node.address, timeout_ms)

    def known_leader(self, partition: TopicPartition) -> int:
        """Who led it when metadata last told of it, -1 for nobody."""
        return self._leaders.get(partition, -1)

    async def leader_of(
        self,
        partition: TopicPartition,
        *,
        refresh: bool = False,
        timeout_ms: float = DEFAULT_TIMEOUT_MS,
    ) -> int:
        """The id of the partition's leader; waits while an election runs."""

        async def attempt(left_ms: float) -> int:
            answer = await self.metadata([partition.topic], timeout_ms=left_ms)
            for topic in answer.topics:
                if topic.error_code:
                    raise response_error(topic.error_code)
            if partition not in self._leaders:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if self._leaders[partition] < 0:
                raise KafkaError(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"{partition} has no leader: are the brokers of its in-sync replicas alive?",
                )
            return self._leaders[partition]

        known = self._leaders.get(partition, -1)
        if known >= 0 and not refresh:
            return known
        return await self._retry(attempt, timeout_ms, timeout_ms, "metadata")

    async def by_leader(
        self, partitions: Iterable[TopicPartition], *, refresh: bool, timeout_ms: float
    ) -> dict[int, list[TopicPartition]]:
        """Whom to ask about which partitions; waits while elections run."""
        groups: dict[int, list[TopicPartition]] = {}
        refreshed: set[str] = set()
        for partition in partitions:
            # One metadata request tells of all partitions of a topic.
            anew = refresh and partition.topic not in refreshed
            leader = await self.leader_of(partition, refresh=anew, timeout_ms=timeout_ms)
            refreshed.add(partition.topic)
            groups.setdefault(leader, []).append(partition)
        return groups

    def _learn(self, answer: m.MetadataResponse) -> None:
        self._nodes = {
            broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in answer.brokers
        }
        self._controller_id = answer.controller_id
        for topic in answer.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name or "", partition.partition_index)
                known_id, known_epoch = self._terms.get(key, (ZERO_TOPIC_ID, -1))
                is_same_topic = topic.topic_id == known_id != ZERO_TOPIC_ID
                if is_same_topic and partition.leader_epoch < known_epoch:
                    continue  # a broker that was left behind, and may take itself for the leader
                self._leaders[key] = partition.leader_id
                self._terms[key] = topic.topic_id, partition.leader_epoch

    def known_epoch(self, partition: TopicPartition) -> int:
        """Of the leader that is known; -1 for none."""
        return self._terms.get(partition, (ZERO_TOPIC_ID, -1))[1]

    async def _find_nodes(self, timeout_ms: float, call: str) -> None:
        if not self._nodes:
            answer = await self.send_to_any(
                m.MetadataRequest(topics=[], allow_auto_topic_creation=False),
                timeout_ms=timeout_ms,
                min_version=_METADATA_MIN_VERSION,
                call=call,
            )
            self._learn(answer)

    async def _any_channel(self, timeout_ms: float) -> Channel:
        for channel in self._channels.values():
            if not channel.closed:
                return channel
        known = [node.address for node in self._nodes.values()]
        candidates = list(dict.fromkeys([*known, *self._bootstrap]))
        problems = []
        for index, address in enumerate(candidates):
            try:
                return await self._channel(address, timeout_ms / (len(candidates) - index))
            except OSError as error:
                problems.append(f"{address}: {_reason(error)}")
        raise ConnectionError("; ".join(problems))

    async def _channel(self, address: Address, timeout_ms: float) -> Channel:
        now = asyncio.get_running_loop().time
        begun = now()
        opening = self._opening[address]
        # Whoever waits for another's attempt waits no longer than for their own: with a broker
        # that says nothing, each of many would else wait for all before.
        async with asyncio.timeout(timeout_ms / 1000):
            await opening.acquire()
        try:
            channel = self._channels.get(address)
            if channel is None or channel.closed:
                channel = await Channel.open(
                    self._runtime,
                    address,
                    client_id=self._client_id,
                    timeout_ms=max(timeout_ms - (now() - begun) * 1000, 1),
                    credentials=self._credentials,
                )
                self._channels[address] = channel
            return channel
        finally:
            opening.release()

    async def _retry_refreshing(
        self, attempt: Callable[[float], Awaitable[T]], timeout_ms: float, call: str
    ) -> T:
        """As `_retry`, with fresh metadata before every further attempt."""
        first = True

        async def refreshed(left_ms: float) -> T:
            nonlocal first
            if not first:
                await self.metadata(timeout_ms=left_ms)
            first = False
            return await attempt(left_ms)

        return await self._retry(refreshed, timeout_ms, timeout_ms, call)

    async def _retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        timeout_ms: float,
        limit_ms: float,
        call: str,
    ) -> T:
        """Repeats `attempt` while it fails in a way that may pass, for `limit_ms`; an attempt
        under way may take what is left of `timeout_ms`."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            elapsed_ms = (loop.time() - begun) * 1000
            try:
                return await attempt(max(timeout_ms - elapsed_ms, 1))
            except OSError as error:
                failure = unreachable(call, error)
            except KafkaError as error:
                if error.code not in RETRIABLE:
                    raise
                failure = error
            if (loop.time() - begun) * 1000 + RETRY_PAUSE_MS >= limit_ms:
                raise failure
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)


def unreachable(call: str, error: OSError) -> KafkaError:
    """What Kafka's admin client says where nobody took a call in time."""
    return KafkaError(
        ErrorCode.REQUEST_TIMED_OUT,
        f"Timed out waiting for a node assignment. Call: {call} ({_reason(error)})",
    )


def call_name(message: Message) -> str:
    """The name Kafka's admin client gives a call: createTopics for CreateTopicsRequest."""
    name = type(message).__name__.removesuffix("Request")
    return name[:1].lower() + name[1:]


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return "no answer in time"
    # asyncio words a failed connection at length, and several addresses of one host in a list:
    # the system's own words for the first failure are enough.
    listed = re.search(r"\[Errno (\d+)\]", str(error))
    if listed:
        return os.strerror(int(listed[1]))
    return error.strerror or str(error) or type(error).__name__
