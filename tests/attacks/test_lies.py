"""Batches that lie: seven were taken when they were found, and consumers stalled on them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from ottla.bench import attack_wire as wire
from ottla.bench.attack_cases import batch_around, make_topic, produce
from ottla.bench.attack_sides import BrokerSide, StoreSide
from ottla.wire import messages as m
from ottla.wire.compression import LZ4, ZSTD, compress
from ottla.wire.records import HEADER_BYTES, Record, build_batch

TOPIC = "lies"
GOOD = build_batch([Record(b"k", b"v", 0), Record(b"k", b"w", 0)])
RECORDS = GOOD[HEADER_BYTES:]

LIES = {
    "garbage": batch_around(b"\xde\xad\xbe\xef" * 10, count=2),
    "an empty body": batch_around(b"", count=2),
    "another codec than it says": batch_around(compress(LZ4, RECORDS), codec=ZSTD, count=2),
    "more records than there are": batch_around(RECORDS, count=3),
    "fewer records than there are": batch_around(RECORDS, count=1),
    "more offsets than records": batch_around(RECORDS, count=2, last_delta=7),
    "a record of negative length": batch_around(b"\x01" + RECORDS[1:], count=2),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSide]:
    folder = tmp_path_factory.mktemp("lies")
    with StoreSide(folder / "store") as store, BrokerSide(folder / "broker", store) as broker:
        make_topic(broker, TOPIC)
        yield broker


def _produced(broker: BrokerSide, batch: bytes) -> tuple[int, int]:
    """Error code and base offset."""
    with wire.Peer(broker.port) as peer:
        peer.send(produce(TOPIC, batch))
        answer = m.ProduceResponse.decode(peer.read(), 7, struct.calcsize(">i"))[0]
    partition = answer.responses[0].partition_responses[0]
    return partition.error_code, partition.base_offset


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_not_appended(lie: str, broker: BrokerSide) -> None:
    code, first = _produced(broker, GOOD)
    assert code == 0
    code, _ = _produced(broker, LIES[lie])
    # Which one is Kafka's choice: tests/peers/test_batch_lies_kafka.py.
    assert code != 0
    assert _produced(broker, GOOD) == (0, first + 2)
