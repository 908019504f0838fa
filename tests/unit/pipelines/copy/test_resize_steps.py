"""A fence is asked for as long as it is needed, also while somebody waits for the swap."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

import pytest

from ottla.client.admin.resizing import ResizeBegun
from ottla.errors import ErrorCode
from ottla.pipelines.copy import resize_steps
from ottla.pipelines.copy.ends import Endpoint
from ottla.pipelines.copy.resize_steps import ResizeSteps
from ottla.spark.loop_thread import LoopThread
from ottla.wire import framing
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka

OLD, NEW = b"o" * 16, b"n" * 16
BEATS = 3
WAIT_S = 10


class InTurn(FakeKafka):
    """Serves the requests of a connection one after the other, as brokers do. The swap takes as
    long as some beats do."""

    def __init__(self) -> None:
        super().__init__(1, RANGES | {20010: (0, 0), 20011: (0, 0)})
        self.beats = asyncio.Semaphore(0)
        self.on(m.FenceResizeRequest, self._beat)

    def _beat(self, request: m.FenceResizeRequest) -> m.FenceResizeResponse:
        assert request.fence == 4
        self.beats.release()
        return m.FenceResizeResponse(fence=4, ends=[])

    async def _swap(self) -> m.FinishResizeResponse:
        try:
            async with asyncio.timeout(WAIT_S):
                for _ in range(BEATS):
                    await self.beats.acquire()
        except TimeoutError:
            return m.FinishResizeResponse(error_code=ErrorCode.FENCED_LEADER_EPOCH)
        return m.FinishResizeResponse(topic_id=NEW, groups=2, members=1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                header, at = framing.decode_request_header(frame)
                version = header.api_version
                request, _ = m.request_class(header.api_key).decode(frame, version, at)
                is_swap = isinstance(request, m.FinishResizeRequest)
                answer = await self._swap() if is_swap else self._answer(request)
                for chunk in framing.encode_response(answer, version, header.correlation_id):
                    writer.write(chunk)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
        finally:
            self._writers.discard(writer)


async def _nothing() -> None:
    pass


@pytest.fixture
def kafka() -> Iterator[FakeKafka]:
    thread = LoopThread("fake-kafka", _nothing)
    made = InTurn()
    thread.result(thread.begin(made.start()))
    yield made
    thread.result(thread.begin(made.stop()))
    thread.close()


def test_the_fence_is_asked_for_while_the_swap_is_waited_for(
    kafka: FakeKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resize_steps, "_HEARTBEAT_S", 0.01)
    begun = ResizeBegun(OLD, "shadow", NEW, 12, 1, False, 0)
    steps = ResizeSteps(Endpoint(kafka.address, "orders"), begun)
    try:
        with steps.kept_fenced(4):
            end = steps.finish(4, {"g": {0: 5}}, guards_keys=False)
    finally:
        steps.close()
    assert (end.topic_id, end.groups, end.members) == (NEW, 2, 1)
