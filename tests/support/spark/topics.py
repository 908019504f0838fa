"""What the tests of the data source share: topics made and filled by a client of others."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from ottla.spark.kafka import KafkaClient
from ottla.spark.options import SourceOptions, parse_sink_options, parse_source_options
from ottla.spark.sink.task_writer import TaskWriter
from ottla.spark.sink.work import Work
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.planner import Planner
from ottla.spark.source.range_reader import RangeReader
from tests.support.known_topics import await_known

WAIT_S = 60
_numbers = itertools.count()


class Topics:
    """One cluster, seen by an administrator and by the data source without Spark."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self.admin = AdminClient({"bootstrap.servers": servers})

    def create(self, partitions: int = 1, replicas: int = 1, name: str = "", **config: str) -> str:
        name = name or f"topic-{next(_numbers)}"
        # Records of these tests bear old dates: retention would delete them under the test.
        settings = {"retention.ms": "-1"}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, replicas, config=settings)
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                self.admin.create_topics([topic])[name].result(WAIT_S)
                break
            except KafkaException as error:
                # The name of a deleted topic is free only when its replicas are gone.
                exists = error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
                if not exists or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
        await_known(self.servers, name, partitions)
        return name

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name], operation_timeout=WAIT_S)[name].result(WAIT_S)
        self.await_gone(name)

    def await_gone(self, name: str) -> None:
        with_name = self.source(subscribe=name)
        client = KafkaClient(with_name.connect)
        while client.topics(with_name.subscription):
            client.pause(20)
        client.close()

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(WAIT_S)
        await_known(self.servers, name, partitions)

    def delete_records(self, name: str, partition: int, before: int) -> None:
        (future,) = self.admin.delete_records([TopicPartition(name, partition, before)]).values()
        future.result(WAIT_S)

    def fill(self, name: str, values: Iterable[bytes], **settings: Any) -> None:
        """Values with their number as timestamp in seconds, to one partition or by key."""
        partition = settings.pop("partition", None)
        records = list(values)
        deadline = time.monotonic() + WAIT_S
        while failures := self._send(name, records, partition, settings):
            # librdkafka drops records for a partition that the broker it asked has not heard of.
            unheard = {error.code() for error in failures} == {KafkaError._UNKNOWN_PARTITION}
            assert unheard and len(failures) == len(records), failures
            assert time.monotonic() < deadline, failures

    def _send(
        self, name: str, values: list[bytes], partition: int | None, settings: dict[str, Any]
    ) -> list[KafkaError]:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **settings})
        failures: list[KafkaError] = []
        for number, value in enumerate(values):
            options = {"partition": partition} if partition is not None else {"key": value}
            producer.produce(
                name,
                value,
                timestamp=1_000 * (number + 1),
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **options,
            )
        assert producer.flush(WAIT_S) == 0
        return failures

    def source(self, streaming: bool = False, **options: str) -> SourceOptions:
        given = {"kafka.bootstrap.servers": self.servers, **options}
        return parse_source_options(given, streaming=streaming)

    def client(self) -> KafkaClient:
        return KafkaClient(self.source(subscribe="any").connect)

    def ranges(self, options: SourceOptions) -> list[OffsetRange]:
        client = self.client()
        try:
            return Planner(client, options).batch()
        finally:
            client.close()

    def read(self, **options: str) -> pa.Table:
        """A batch query, task after task."""
        parsed = self.source(**options)
        client = self.client()
        try:
            return read_ranges(client, Planner(client, parsed).batch(), parsed)
        finally:
            client.close()

    def values(self, **options: str) -> list[bytes]:
        return sorted(self.read(**options)["value"].to_pylist())

    def write(
        self, work: Work, batches: Iterator[pa.RecordBatch], client: KafkaClient, **options: str
    ) -> int:
        given = {"kafka.bootstrap.servers": self.servers, **options}
        return TaskWriter(client, parse_sink_options(given, streaming=True), work).write(batches)


def read_ranges(client: KafkaClient, ranges: list[OffsetRange], options: SourceOptions) -> pa.Table:
    from ottla.wire.columnar import SCHEMA, SCHEMA_WITH_HEADERS

    schema = SCHEMA_WITH_HEADERS if options.include_headers else SCHEMA
    batches = [b for one in ranges for b in RangeReader(client, one, options).batches()]
    return pa.Table.from_batches(batches, schema)


def rows(values: Iterable[bytes], **columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})
