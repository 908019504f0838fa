"""Produce requests that are answered by their bytes: the same answer as the handler's, or none."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers import produce
from ottla.broker.requests import direct_produce
from ottla.broker.requests.direct_produce import DirectProduce
from ottla.broker.requests.parked import Parked
from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.compression import ZSTD
from ottla.wire.records import Record, build_batch
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import TP, Broker, MakeBrokers, brokers, client_batch

__all__ = ["brokers"]
Request = m.ProduceRequest


def answer_of(direct: DirectProduce, broker: Broker, frame: memoryview) -> bytes | Parked | None:
    answers = direct.answers(broker.manager.appends, [frame])
    return answers[0] if answers else None


@pytest.fixture
async def leader(brokers: MakeBrokers) -> Broker:
    (broker,) = await brokers(1)
    broker.order(0, 1, replicas=[0])
    return broker


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("acks", [1, -1])
async def test_the_answer_is_the_handlers(leader: Broker, version: int, acks: int) -> None:
    direct = DirectProduce()
    for correlation_id in (1, 2, 70_000):
        before = leader.log.end_offset
        frame = produce_frame(
            client_batch(3), version=version, correlation_id=correlation_id, acks=acks
        )
        copy = memoryview(bytearray(frame))
        request, _ = Request.decode(copy, version, framing.decode_request_header(copy)[1])
        answer = answer_of(direct, leader, frame)
        assert leader.log.end_offset == before + 3
        response = await produce.handle(leader.context(version), request)
        assert response is not None
        response.responses[0].partition_responses[0].base_offset = before
        wanted = b"".join(framing.encode_response(response, version, correlation_id))
        assert answer == wanted


@pytest.mark.parametrize("size", [125, 127, 128, 16_382, 16_383, 16_384])
async def test_batches_where_their_length_gets_a_byte_more(leader: Broker, size: int) -> None:
    fixed = len(build_batch([Record(None, b"", 1)]))
    # Not every size can be had by the value alone, and 126 not at all: lengths inside grow, too.
    batches = (
        build_batch([Record(b"k" * key, bytes(size - fixed - less), 1)])
        for key in range(3)
        for less in range(8)
    )
    (batch, *_) = [batch for batch in batches if len(batch) == size]
    before = leader.log.size
    assert answer_of(DirectProduce(), leader, produce_frame(batch)) is not None
    assert leader.log.size == before + size


async def test_no_answer_is_wanted_with_acks_0(leader: Broker) -> None:
    assert answer_of(DirectProduce(), leader, produce_frame(client_batch(), acks=0)) == b""
    assert leader.log.end_offset == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"acks": 2},
        {"transactional_id": "x"},
        {"topic": "elsewhere"},
        {"topic": "__consumer_offsets"},
        {"topic": "t" * 127},
        {"index": 1},
        {"topic_data": []},
        {"batch": None},
        {"batch": b""},
        {"batch": bytes(80)},
        {"batch": bytes(client_batch()) * 2},
        {"batch": bytes(client_batch()) + b"more"},
        {"batch": bytes(client_batch())[:-1]},
        {"batch": bytes(client_batch())[:-1] + b"?"},
        {
            "batch": build_batch(
                [Record(None, b"v", 1)],
                producer_id=1,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        },
    ],
)
@pytest.mark.parametrize("version", [3, 7, 8, 11])
async def test_everything_else_is_left_to_the_handler(
    leader: Broker, changes: dict[str, Any], version: int
) -> None:
    direct = DirectProduce()
    usual = produce_frame(client_batch(), version=version)
    assert answer_of(direct, leader, usual) is not None
    changed = {"version": version, "batch": client_batch(), **changes}
    frame = produce_frame(changed.pop("batch"), **changed)
    unchanged = bytes(frame)
    assert answer_of(direct, leader, frame) is None
    assert bytes(frame) == unchanged
    assert leader.log.end_offset == 1


@pytest.mark.parametrize("version", [3, 11])
async def test_long_headers_are_not_remembered(leader: Broker, version: int) -> None:
    """A hostile client would fill our memory with them, 256 for each of its connections."""
    direct = DirectProduce()
    frame = produce_frame(client_batch(), version=version, client_id="c" * 10_000)
    assert answer_of(direct, leader, frame) is None
    assert not direct._forms
    assert answer_of(direct, leader, produce_frame(client_batch(), version=version)) is not None
    assert len(direct._forms) == 1


@pytest.mark.parametrize("version", [3, 8, 11])
async def test_frames_that_are_cut_are_left_to_the_handler(leader: Broker, version: int) -> None:
    direct = DirectProduce()
    whole = produce_frame(client_batch(), version=version)
    longer = memoryview(bytearray(whole) + b"?")
    for frame in (*(whole[:size] for size in range(2, len(whole))), longer):
        assert answer_of(direct, leader, frame) is None
    assert leader.log.end_offset == 0


@pytest.mark.parametrize("version", range(3, 12))
async def test_zstd_needs_version_7(leader: Broker, version: int) -> None:
    batch = build_batch([Record(None, b"v" * 100, 1)], compression=ZSTD)
    answer = answer_of(DirectProduce(), leader, produce_frame(batch, version=version))
    assert (answer is not None) == (version >= 7)


async def test_topics_with_names_of_different_lengths_are_all_remembered(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct = DirectProduce()
    frames = [
        produce_frame(client_batch(), topic=topic, version=version)
        for topic in ("t", "te", "tenth")
        for version in (7, 11)
    ]
    for frame in frames:
        answer_of(direct, leader, frame)
    learnt: list[int] = []
    monkeypatch.setattr(DirectProduce, "_learn", lambda *_: learnt.append(1))
    for frame in frames:
        answer_of(direct, leader, frame)
    assert not learnt


async def test_a_flush_after_every_append_is_the_handlers(brokers: MakeBrokers) -> None:
    (broker,) = await brokers(1, flush_messages=1)
    broker.order(0, 1, replicas=[0])
    assert answer_of(DirectProduce(), broker, produce_frame(client_batch())) is None


async def test_a_connection_remembers_only_so_many_partitions(
    leader: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_produce, "MAX_FORMS", 4)
    direct = DirectProduce()
    for index in range(20):
        answer_of(direct, leader, produce_frame(client_batch(), index=index))
    assert len(direct._forms) <= 4
    assert answer_of(direct, leader, produce_frame(client_batch(), index=TP.partition))
