"""Produce requests as messages and as frames."""

from __future__ import annotations

from typing import Any

from ottla.wire import framing
from ottla.wire import messages as m

Request = m.ProduceRequest


def produce_request(
    data: memoryview | bytes | None, *, acks: int = 1, topic: str = "t", version: int = 9
) -> m.ProduceRequest:
    request = m.ProduceRequest
    built = request(
        acks=acks,
        timeout_ms=500,
        topic_data=[
            request.TopicProduceData(
                name=topic, partition_data=[request.PartitionProduceData(index=0, records=data)]
            )
        ],
    )
    return request.decode(bytearray(built.encode(version)), version)[0]


def produce_frame(
    batch: Any, *, version: int = 11, correlation_id: int = 7, acks: int = 1, **changes: Any
) -> memoryview:
    partition = Request.PartitionProduceData(index=changes.pop("index", 0), records=batch)
    topic = Request.TopicProduceData(name=changes.pop("topic", "t"), partition_data=[partition])
    client_id = changes.pop("client_id", "client")
    request = Request(**{"acks": acks, "timeout_ms": 100, "topic_data": [topic], **changes})
    chunks = framing.encode_request(request, version, correlation_id, client_id)
    return memoryview(bytearray(b"".join(chunks)[4:]))
