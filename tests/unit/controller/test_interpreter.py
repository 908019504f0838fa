"""The interpreter's fenced writes, the channels and the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.controller import interpreter as interpreter_module
from ottla.controller.channels import ChannelManager
from ottla.controller.events import AlterIsr, BrokerChange, PartitionModifications, TopicChange
from ottla.controller.interpreter import ControllerMovedError, Interpreter, StoreUnavailableError
from ottla.controller.queue import EventQueue
from ottla.controller.steps import ControlRequest, Steps, get_paths, write
from ottla.errors import KafkaError
from ottla.metadata.store import (
    BadVersionError,
    ConnectionLossError,
    Create,
    Delete,
    NodeExistsError,
    NoNodeError,
    Op,
    OpResult,
    SessionExpiredError,
    SetData,
)
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.controller.controlled_cluster import ControlledCluster, eventually


class FlakyStore(EmbeddedStore):
    """Loses connections: before the multi is applied, or only its answer."""

    lose_before = 0
    lose_after = 0
    lose_gets = 0
    refuses_gets = False
    gets = 0

    async def get(self, path: str, watch: Any = None) -> Any:
        self.gets += 1
        if self.refuses_gets:
            raise SessionExpiredError(path)
        if self.lose_gets:
            self.lose_gets -= 1
            raise ConnectionLossError(path)
        return await super().get(path, watch)

    async def multi(self, ops: Any) -> list[OpResult]:
        if self.lose_before:
            self.lose_before -= 1
            raise ConnectionLossError("/")
        results = await super().multi(ops)
        if self.lose_after:
            self.lose_after -= 1
            raise ConnectionLossError("/")
        return results


@pytest.fixture
async def store(cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch) -> FlakyStore:
    monkeypatch.setattr(interpreter_module, "RETRY_PAUSE_MS", 1)
    await cluster.admin.create("/controller_epoch", b"1")
    return FlakyStore(cluster.engine)


def make(store: EmbeddedStore, epoch_zk_version: int = 0) -> Interpreter:
    async def connect(host: str, port: int) -> Any:
        raise ConnectionRefusedError

    channels = ChannelManager(connect, "PLAINTEXT", lambda *_: None, 1000)
    return Interpreter(store, channels, lambda event: None, epoch_zk_version)


def writing(*ops: Op) -> Steps[list[OpResult]]:
    return (yield from write(ops))


def errors(results: list[OpResult]) -> list[type[Exception] | None]:
    return [None if result.error is None else type(result.error) for result in results]


async def test_one_bad_write_does_not_stop_the_others(store: FlakyStore) -> None:
    ops: list[Op] = [Create(f"/n{i}", b"x") for i in range(250)]
    ops[120] = Delete("/missing")
    ops[130] = SetData("/controller_epoch", b"9", 44)
    results = await make(store).run(writing(*ops))
    expected: list[type[Exception] | None] = [None] * 250
    expected[120], expected[130] = NoNodeError, BadVersionError
    assert errors(results) == expected
    assert await store.exists("/n249") is not None


async def test_every_write_is_fenced(store: FlakyStore) -> None:
    with pytest.raises(ControllerMovedError):
        await make(store, epoch_zk_version=3).run(writing(Create("/n", b"x")))
    assert await store.exists("/n") is None


async def test_a_revoked_interpreter_does_nothing_more(store: FlakyStore) -> None:
    interpreter = make(store)
    interpreter.revoke()
    with pytest.raises(ControllerMovedError):
        await interpreter.run(writing(Create("/n", b"x")))


async def test_a_lost_connection_is_tried_again(store: FlakyStore) -> None:
    store.lose_before = 2
    results = await make(store).run(writing(Create("/a", b"x"), Create("/b", b"y")))
    assert errors(results) == [None, None]


async def test_a_lost_answer_is_not_taken_for_a_refusal(store: FlakyStore) -> None:
    await store.create("/old", b"1")
    await store.create("/gone", b"1")
    store.lose_after = 1
    ops = (Create("/new", b"x"), SetData("/old", b"2", 0), Delete("/gone"))
    results = await make(store).run(writing(*ops))
    assert errors(results) == [None, None, None]
    assert results[1].stat is not None and results[1].stat.version == 1


async def test_a_real_refusal_after_a_loss_stays_one(store: FlakyStore) -> None:
    await store.create("/theirs", b"other")
    store.lose_before = 1
    results = await make(store).run(writing(Create("/theirs", b"x"), Create("/mine", b"x")))
    assert errors(results) == [NodeExistsError, None]


async def test_reads_are_answered_in_the_order_they_were_asked_in(
    store: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter_module, "READS_AHEAD", 3)
    for number in (0, 1, 2, 4, 6, 7, 8):
        await store.create(f"/n{number}", b"%d" % number)
    store.lose_gets = 2
    for count in (1, 3, 4, 6, 10):
        nodes = await make(store).run(get_paths([f"/n{number}" for number in range(count)]))
        found = [None if node is None else node.data for node in nodes]
        expected = {3: None, 5: None, 9: None}
        assert found == [expected.get(number, b"%d" % number) for number in range(count)]


async def test_reads_that_nobody_waits_for_are_left(
    store: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter_module, "READS_AHEAD", 2)
    store.refuses_gets = True
    with pytest.raises(SessionExpiredError):
        await make(store).run(get_paths([f"/n{number}" for number in range(7)]))
    assert store.gets == 1


async def test_retries_end(store: FlakyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter_module, "MAX_ATTEMPTS", 3)
    store.lose_before = 100
    with pytest.raises(StoreUnavailableError):
        await make(store).run(writing(Create("/n", b"x")))
    assert store.lose_before == 97


async def test_a_channel_keeps_order_and_repeats_until_answered(
    cluster: ControlledCluster,
) -> None:
    answered: list[Any] = []
    channels = ChannelManager(
        cluster.connect, "PLAINTEXT", lambda broker, message, _: answered.append(message), 1000
    )
    broker = cluster.brokers[1]
    broker.connects = False
    channels.open(cluster.info(1))
    for epoch in range(3):
        channels.send(ControlRequest(1, m.UpdateMetadataRequest(controller_epoch=epoch), 7))
    await cluster.settle()
    assert broker.requests == []
    broker.connects = True
    await eventually(lambda: len(answered) == 3)
    assert [r.controller_epoch for r in broker.requests] == [0, 1, 2]
    channels.close_all()


async def test_a_channel_has_one_request_in_flight_and_stops_when_closed(
    cluster: ControlledCluster,
) -> None:
    channels = ChannelManager(cluster.connect, "PLAINTEXT", lambda *_: None, 1000)
    broker = cluster.brokers[1]
    broker.answers.clear()
    channels.open(cluster.info(1))
    for _ in range(2):
        channels.send(ControlRequest(1, m.UpdateMetadataRequest(), 7))
    await eventually(lambda: broker.requests)
    await cluster.settle()
    assert len(broker.requests) == 1
    channels.close(1)
    broker.answers.set()
    await cluster.settle()
    assert len(broker.requests) == 1
    channels.send(ControlRequest(1, m.UpdateMetadataRequest(), 7))


async def test_equal_events_wait_once() -> None:
    queue = EventQueue()
    for event in (TopicChange(), BrokerChange(), TopicChange(), PartitionModifications("a")):
        queue.put(event)
    queue.put(PartitionModifications("b"))
    queue.put(PartitionModifications("a"))
    names = [(await queue.get()).event for _ in range(len(queue))]
    assert names == [
        TopicChange(),
        BrokerChange(),
        PartitionModifications("a"),
        PartitionModifications("b"),
    ]
    queue.put(TopicChange())
    assert len(queue) == 1


async def test_calls_are_bounded() -> None:
    queue = EventQueue(max_waiting_calls=1)
    first = asyncio.ensure_future(queue.call(AlterIsr(m.AlterPartitionRequest())))
    await asyncio.sleep(0)
    with pytest.raises(KafkaError):
        await queue.call(AlterIsr(m.AlterPartitionRequest()))
    queued = await queue.get()
    assert queued.reply is not None
    queued.reply.set_result("done")
    assert await first == "done"
