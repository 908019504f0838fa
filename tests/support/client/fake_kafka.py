"""A scripted broker on the loopback interface, for tests of the client side."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from ottla.wire import framing
from ottla.wire import messages as m

# Versions of a fake broker where a test does not say otherwise: some are below this side's.
RANGES = {3: (0, 9), 18: (0, 3), 19: (0, 5), 20: (0, 6), 32: (0, 3), 37: (0, 2), 46: (0, 0)}


class FakeKafka:
    """Answers what `on` was told to; Metadata and ApiVersions by itself."""

    def __init__(self, node_id: int, ranges: dict[int, tuple[int, int]] = RANGES) -> None:
        self.node_id = node_id
        self.ranges = ranges
        self.controller_id = node_id
        self.peers: list[FakeKafka] = [self]
        self.topics: list[m.MetadataResponse.MetadataResponseTopic] = []
        self.seen: list[tuple[Any, int]] = []
        self.port = 0
        self._answers: dict[type, Callable[[Any], Any]] = {}
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def on(self, request_class: type, answer: Callable[[Any], Any]) -> None:
        self._answers[request_class] = answer

    async def start(self) -> FakeKafka:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self.drop_connections()

    def refuse_connections(self) -> None:
        """Those that are there stay."""
        assert self._server is not None
        self._server.close()

    def drop_connections(self) -> None:
        for writer in self._writers:
            writer.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, offset = framing.decode_request_header(frame)
                request, _ = m.request_class(header.api_key).decode(
                    frame, header.api_version, offset
                )
                self.seen.append((request, header.api_version))
                answer = self._answer(request)
                if answer is None:
                    continue  # as a broker whose host is gone
                for chunk in framing.encode_response(
                    answer, header.api_version, header.correlation_id
                ):
                    writer.write(chunk)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            self._writers.discard(writer)

    def _answer(self, request: Any) -> Any:
        scripted = self._answers.get(type(request))
        if scripted is not None:
            return scripted(request)
        if isinstance(request, m.ApiVersionsRequest):
            api = m.ApiVersionsResponse.ApiVersion
            return m.ApiVersionsResponse(
                api_keys=[
                    api(api_key=key, min_version=low, max_version=high)
                    for key, (low, high) in self.ranges.items()
                ]
            )
        assert isinstance(request, m.MetadataRequest), request
        return self.metadata(request)

    def metadata(self, request: m.MetadataRequest) -> m.MetadataResponse:
        broker = m.MetadataResponse.MetadataResponseBroker
        wanted = None if request.topics is None else {topic.name for topic in request.topics}
        return m.MetadataResponse(
            brokers=[
                broker(node_id=peer.node_id, host="127.0.0.1", port=peer.port, rack="r")
                for peer in self.peers
            ],
            cluster_id="fake",
            controller_id=self.controller_id,
            topics=[t for t in self.topics if wanted is None or t.name in wanted],
        )


def topic(
    name: str, *leaders: int, error_code: int = 0, is_internal: bool = False
) -> m.MetadataResponse.MetadataResponseTopic:
    """A topic with a partition per leader, on brokers 1 and 2."""
    partition = m.MetadataResponse.MetadataResponsePartition
    return m.MetadataResponse.MetadataResponseTopic(
        name=name,
        error_code=error_code,
        is_internal=is_internal,
        partitions=[
            partition(partition_index=index, leader_id=leader, replica_nodes=[1, 2], isr_nodes=[1])
            for index, leader in reversed(list(enumerate(leaders)))
        ],
    )


@asynccontextmanager
async def silent_leader(kafka: FakeKafka, of_request: type) -> AsyncIterator[None]:
    """Broker 2 leads `t` and answers no such request; after the first one `kafka` leads."""
    silent = await FakeKafka(2, kafka.ranges).start()
    kafka.peers = [kafka, silent]
    kafka.topics = [topic("t", 2)]

    def take_and_fail_over(_: Any) -> None:
        kafka.topics = [topic("t", 1)]

    silent.on(of_request, take_and_fail_over)
    try:
        yield
    finally:
        await silent.stop()
