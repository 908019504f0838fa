"""`ottla bench codec`: the wire codec beside kio, a Kafka protocol library with a native decoder.

Each side does the same work in turn, several rounds; the least time of each counts. kio is a
development dependency: without it ours is measured alone and no goal is judged.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import time
from collections.abc import Callable
from typing import Any

from ottla.bench import validation
from ottla.bench.table import Row, exit_code, print_rows
from ottla.wire import messages as m
from ottla.wire import native
from ottla.wire.codec import Message

# The goals. They are never edited to fit a result.
METADATA_ENCODE_AT_LEAST = 5.0
PRODUCE_DECODE_AT_MOST = 3.0

ROUNDS = 7
TOPICS, PARTITIONS = 1000, 10
PRODUCE_BYTES = 16 * 1024
FETCH_TOPICS, FETCH_PARTITIONS, FETCH_RECORD_BYTES = 10, 10, 4096

Work = Callable[[], object]


def run() -> list[Row]:
    """Measures everything; takes a few seconds."""
    metadata, produce = _metadata_response(), _produce_request()
    fetch, fetched = _fetch_request(), _fetch_response()
    encode_row = _encoding("Metadata v9 response, 1,000 × 10 partitions: encode", metadata, 9, 1)
    decode_row = _decoding("Produce v9 request of 16 kB: decode", produce, 9, 1000)
    return [
        _judged(
            encode_row,
            f"at least {METADATA_ENCODE_AT_LEAST:.0f}× as fast as kio",
            METADATA_ENCODE_AT_LEAST,
        ),
        _decoding("Metadata v9 response, 1,000 × 10 partitions: decode", metadata, 9, 1),
        _judged(
            decode_row,
            f"at most {PRODUCE_DECODE_AT_MOST:.0f}× kio's native time",
            1 / PRODUCE_DECODE_AT_MOST,
        ),
        _encoding("Produce v9 request of 16 kB: encode", produce, 9, 1000),
        _encoding("Fetch v12 request, 100 partitions: encode", fetch, 12, 50),
        _decoding("Fetch v12 request, 100 partitions: decode", fetch, 12, 50),
        _encoding("Fetch v12 response, 100 × 4 kB: encode", fetched, 12, 20),
        _decoding("Fetch v12 response, 100 × 4 kB: decode", fetched, 12, 20),
        *validation.rows(),
        *_column_rows(),
    ]


def main(output: str) -> int:
    rows = run()
    title = f"Wire codec, peer: kio; of records: pure Python. In force: {native.in_force()}"
    print_rows(rows, output, title=title)
    return exit_code(rows)


def _column_rows() -> list[Row]:
    """Columns need the extra `spark`."""
    if any(importlib.util.find_spec(name) is None for name in ("numpy", "pyarrow")):
        return []
    from ottla.bench import columns

    return columns.rows()


def _judged(row: Row, goal: str, least_ratio: float) -> Row:
    holds = None if row.ratio is None else row.ratio >= least_ratio
    return row._replace(goal=goal, holds=holds)


def _encoding(work: str, message: Message, version: int, repeats: int) -> Row:
    peer = _kio_encoder(message, version)
    return _measured(work, lambda: message.encode(version), peer, repeats)


def _decoding(work: str, message: Message, version: int, repeats: int) -> Row:
    raw = message.encode(version)
    # What a connection hands out: a writable view of a frame.
    frame = memoryview(bytearray(raw))
    decode = type(message).decode
    return _measured(work, lambda: decode(frame, version), _kio_decoder(message, version), repeats)


def _measured(work: str, ours: Work, peer: Work | None, repeats: int) -> Row:
    best_ours, best_peer = float("inf"), float("inf")
    for _ in range(ROUNDS):
        best_ours = min(best_ours, _microseconds(ours, repeats))
        if peer is not None:
            best_peer = min(best_peer, _microseconds(peer, repeats))
    return Row(work, best_ours, None if peer is None else best_peer, "µs")


def _microseconds(work: Work, repeats: int) -> float:
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats * 1e6


def _kio_entity(message: Message, version: int) -> Any:
    """kio's class for a message's version, None where kio is not installed."""
    if importlib.util.find_spec("kio") is None:
        return None
    kind = message.SCHEMA.kind
    api = m.api_names()[message.API_KEY].lower()
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
    return getattr(module, type(message).__name__)


def _kio_decoder(message: Message, version: int) -> Work | None:
    entity = _kio_entity(message, version)
    if entity is None:
        return None
    read = importlib.import_module("kio.serial").entity_reader(entity)
    raw = message.encode(version)
    return lambda: read(raw, 0)


def _kio_encoder(message: Message, version: int) -> Work | None:
    entity = _kio_entity(message, version)
    if entity is None:
        return None
    serial = importlib.import_module("kio.serial")
    value, _ = serial.entity_reader(entity)(message.encode(version), 0)
    write = serial.entity_writer(entity)

    def encode() -> bytes:
        out = io.BytesIO()
        write(out, value)
        return out.getvalue()

    return encode


def _metadata_response() -> Message:
    kind = m.MetadataResponse
    topics = []
    for number in range(TOPICS):
        partitions = [
            kind.MetadataResponsePartition(
                partition_index=index,
                leader_id=index % 3,
                leader_epoch=number % 7,
                replica_nodes=[0, 1, 2],
                isr_nodes=[0, 1, 2],
            )
            for index in range(PARTITIONS)
        ]
        name = f"topic-{number}"
        topics.append(kind.MetadataResponseTopic(name=name, partitions=partitions))
    brokers = [
        kind.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=9092 + node)
        for node in range(3)
    ]
    return kind(brokers=brokers, cluster_id="ottla", controller_id=0, topics=topics)


def _produce_request() -> Message:
    kind = m.ProduceRequest
    partition = kind.PartitionProduceData(index=0, records=bytes(PRODUCE_BYTES))
    topic = kind.TopicProduceData(name="topic-1", partition_data=[partition])
    return kind(acks=-1, timeout_ms=30_000, topic_data=[topic])


def _fetch_request() -> Message:
    kind = m.FetchRequest
    topics = []
    for number in range(FETCH_TOPICS):
        partitions = [
            kind.FetchPartition(partition=index, fetch_offset=1000, partition_max_bytes=1 << 20)
            for index in range(FETCH_PARTITIONS)
        ]
        topics.append(kind.FetchTopic(topic=f"topic-{number}", partitions=partitions))
    return kind(max_wait_ms=500, min_bytes=1, topics=topics)


def _fetch_response() -> Message:
    kind = m.FetchResponse
    records = bytes(FETCH_RECORD_BYTES)
    topics = []
    for number in range(FETCH_TOPICS):
        partitions = [
            kind.PartitionData(partition_index=index, high_watermark=1000, records=records)
            for index in range(FETCH_PARTITIONS)
        ]
        topic = kind.FetchableTopicResponse(topic=f"topic-{number}", partitions=partitions)
        topics.append(topic)
    return kind(responses=topics)
