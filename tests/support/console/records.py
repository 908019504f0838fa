"""Records for pages to look at."""

from __future__ import annotations


def fill_partition(bootstrap: str, topic: str, partition: int, size: int) -> None:
    """`size` bytes of values, in records of 64 KiB."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for _ in range(size // 65_536):
        producer.produce(topic, value=bytes(65_536), partition=partition)
    assert producer.flush(30) == 0
