"""Real producers and consumers beside a page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer, Producer

WAIT_S = 60.0


def write(bootstrap: str, *messages: dict[str, Any], **options: Any) -> None:
    """`topic`, `key`, `value`, `headers`, `partition`; all are stored when it returns."""
    failed: list[Any] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap, "message.max.bytes": 50_000_000, **options}
    )
    for message in messages:
        producer.produce(on_delivery=lambda error, _: error and failed.append(error), **message)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    assert failed == []


class Reader:
    """A member of a group that reads when it is told to, and commits what it has read."""

    def __init__(self, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **options,
        }
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic])

    def read(self, count: int) -> None:
        left, deadline = count, time.monotonic() + WAIT_S
        while left:
            message = self.consumer.poll(0.2)
            if message is not None and not message.error():
                left -= 1
            assert time.monotonic() < deadline, f"{left} records did not come"
        self.consumer.commit(asynchronous=False)


@contextlib.contextmanager
def reading(bootstrap: str, group: str, topic: str, **options: Any) -> Iterator[Reader]:
    reader = Reader(bootstrap, group, topic, **options)
    try:
        yield reader
    finally:
        reader.consumer.close()
