"""Where librdkafka puts keys, with each of its partitioners. sarama is known by its source."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Message, Producer

from ottla.testing.cluster import Cluster
from ottla.topics.partitioners import Partitioner, partition_of

pytestmark = pytest.mark.peers
PARTITIONS = 11
WAIT_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        running.create_topic("keys", partitions=PARTITIONS)
        yield running


def placed(cluster: Cluster, partitioner: str, keys: list[bytes | None]) -> list[int]:
    """Where the client puts each record."""
    found: dict[int, int] = {}
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "partitioner": partitioner}
    )

    for number, key in enumerate(keys):

        def note(error: KafkaError | None, message: Message, number: int = number) -> None:
            assert error is None, error
            partition = message.partition()
            assert partition is not None
            found[number] = partition

        producer.produce("keys", value=b"v", key=key, on_delivery=note)
    assert producer.flush(WAIT_S) == 0
    return [found[number] for number in range(len(keys))]


def some_keys() -> list[bytes]:
    rng = random.Random(18)
    return [rng.randbytes(rng.randrange(1, 40)) for _ in range(400)]


@pytest.mark.parametrize(
    ("name", "partitioner"),
    [
        ("murmur2_random", Partitioner.MURMUR2),
        ("murmur2", Partitioner.MURMUR2),
        ("consistent", Partitioner.CRC32),
        ("consistent_random", Partitioner.CONSISTENT_RANDOM),
        ("fnv1a_random", Partitioner.FNV1A),
        ("fnv1a", Partitioner.FNV1A),
    ],
)
def test_keys_lie_where_librdkafka_puts_them(
    cluster: Cluster, name: str, partitioner: Partitioner
) -> None:
    keys = some_keys()
    expected = [partition_of(partitioner, key, PARTITIONS) for key in keys]
    assert placed(cluster, name, [*keys]) == expected


@pytest.mark.parametrize(
    ("name", "partitioner", "key"),
    [
        ("consistent", Partitioner.CRC32, b""),
        ("consistent", Partitioner.CRC32, None),
        ("consistent_random", Partitioner.CONSISTENT_RANDOM, b""),
        ("consistent_random", Partitioner.CONSISTENT_RANDOM, None),
        ("murmur2_random", Partitioner.MURMUR2, None),
        ("fnv1a_random", Partitioner.FNV1A, None),
    ],
)
def test_no_key_and_an_empty_one(
    cluster: Cluster, name: str, partitioner: Partitioner, key: bytes | None
) -> None:
    expected = partition_of(partitioner, key, PARTITIONS)
    if expected is not None:
        assert set(placed(cluster, name, [key] * 20)) == {expected}
        return
    # Each producer takes a partition of its own, until it takes another one.
    found = {partition for _ in range(12) for partition in placed(cluster, name, [key])}
    assert len(found) > 1
