"""One task of the sink: Arrow record batches in, stored records out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OttlaError
from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient
from ottla.spark.options import SinkOptions, Subscription
from ottla.spark.sink.partitioner import partitions_of
from ottla.spark.sink.producer import BatchProducer
from ottla.spark.sink.transactions import Done, Slot, Transaction, slots, transactional_id
from ottla.wire.columnar_encode import DEFAULT_BATCH_BYTES, Rows, encode

if TYPE_CHECKING:
    import numpy.typing as npt

    from ottla.spark.sink.work import Work

# What is encoded and sent together: enough that batches are large, little enough to stay in memory.
CHUNK_BYTES = 4 * 1024 * 1024
_LARGEST_MAPPED_BYTES = 32 * 1024 * 1024 - 64 * 1024


class TaskWriter:
    """One attempt of one task: gathers rows into chunks, spreads them over partitions, sends them.

    Exactly once, the attempt is one transaction that also notes which work it has done.
    """

    def __init__(self, client: KafkaClient, options: SinkOptions, work: Work) -> None:
        self._client = client
        self._options = options
        self._work = work
        self._partition_counts: dict[str, int] = {}
        self._sticky = work.sink_partition
        _keep_freed_memory()

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """How many rows this attempt wrote: none where an earlier one did it all."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return 0
        rows = chain([first], filled)
        if self._options.exactly_once:
            return self._write_once(first, rows)
        producer = BatchProducer(self._client, self._options, None)
        producer.start()
        try:
            return self._write_rows(producer, rows)
        except BaseException:
            producer.give_up()
            raise

    def _write_once(self, first: pa.RecordBatch, rows: Iterator[pa.RecordBatch]) -> int:
        transaction = Transaction(
            self._client.cluster,
            transactional_id(self._work.query_id, self._work.sink_partition),
            timeout_ms=self._client.connect.timeout_ms,
            lifetime_ms=self._options.transaction_timeout_ms,
        )
        places = self._slots(self._options.topic or _first_topic(first))
        # The order matters: after `begin` no earlier attempt can commit any more.
        self._client.run(transaction.begin())
        done = self._client.run(transaction.last_batch(places))
        if done.batch_id >= self._work.batch_id:
            self._check_same(done, sum(batch.num_rows for batch in rows))
            return 0
        producer = BatchProducer(self._client, self._options, transaction)
        producer.start()
        try:
            written = self._write_rows(producer, rows)
            # In every topic: whichever the first row of another attempt has, it finds the number.
            for topic in self._partition_counts:
                place = self._slots(topic)[0]
                self._client.run(transaction.commit_batch(place, self._work.batch_id, written))
            self._client.run(transaction.end(commit=True))
        except BaseException:
            producer.give_up()
            self._abort(transaction)
            raise
        return written

    def _check_same(self, done: Done, rows: int) -> None:
        """Leaving out what was written before is right only if it is the same rows again."""
        if done.batch_id == self._work.batch_id and done.rows not in (None, rows):
            raise SourceError(
                f"task {self._work.sink_partition} of micro-batch {done.batch_id} has {rows} rows "
                f"now and had {done.rows} when it was written: the query's input or the number of "
                "its shuffle partitions is not what it was, the micro-batch cannot be written "
                "exactly once"
            )

    def _abort(self, transaction: Transaction) -> None:
        """Readers need not wait for the time-out; the failure that led here is what counts."""
        try:
            self._client.run(transaction.end(commit=False))
        except OttlaError:
            pass

    def _slots(self, topic: str) -> list[Slot]:
        return slots(
            *(self._work.query_id, topic, self._work.sink_partition, self._partition_count(topic))
        )

    def _write_rows(self, producer: BatchProducer, batches: Iterator[pa.RecordBatch]) -> int:
        written = size = 0
        chunk: list[pa.RecordBatch] = []
        for batch in batches:
            chunk.append(batch)
            size += batch.nbytes
            written += batch.num_rows
            if size >= CHUNK_BYTES:
                self._send(producer, chunk)
                chunk, size = [], 0
        if chunk:
            self._send(producer, chunk)
        producer.flush()
        return written

    def _send(self, producer: BatchProducer, chunk: list[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(chunk).combine_chunks().to_batches()[0]
        if self._options.topic is not None:
            self._send_to(producer, self._options.topic, rows)
            return
        topics = rows.column("topic")
        if topics.null_count:
            raise SourceError("a row has no topic")
        for topic in pc.unique(topics).to_pylist():
            mask = pc.equal(topics, topic)
            self._send_to(producer, topic, rows.filter(mask))

    def _send_to(self, producer: BatchProducer, topic: str, rows: pa.RecordBatch) -> None:
        keys = _binary(rows, "key")
        values = _binary(rows, "value")
        assert values is not None  # check_columns saw to it
        partitions = self._partitions(topic, rows, keys)
        encoded = encode(
            Rows(keys, values, self._timestamps(rows), _headers(rows)),
            partitions,
            batch_bytes=min(self._options.batch_bytes or DEFAULT_BATCH_BYTES, DEFAULT_BATCH_BYTES),
        )
        producer.submit(topic, encoded)

    def _partitions(
        self, topic: str, rows: pa.RecordBatch, keys: pa.Array | None
    ) -> npt.NDArray[np.int64]:
        count = self._partition_count(topic)
        # Rows without a key fill one partition after the other (KIP-480).
        self._sticky = (self._sticky + 1) % count
        given = rows.column("partition") if "partition" in rows.schema.names else None
        if given is None or given.null_count == len(given):
            return partitions_of(keys, rows.num_rows, count, self._sticky)
        wanted: npt.NDArray[np.int64] = given.fill_null(-1).to_numpy().astype(np.int64)
        if given.null_count:
            chosen = partitions_of(keys, rows.num_rows, count, self._sticky)
            missing = given.is_null().to_numpy(zero_copy_only=False)
            wanted[missing] = chosen[missing]
        if int(wanted.min()) < 0 or int(wanted.max()) >= count:
            wrong = int(wanted.min()) if int(wanted.min()) < 0 else int(wanted.max())
            raise SourceError(f"topic {topic} has {count} partitions, there is no {wrong}")
        return wanted

    def _partition_count(self, topic: str) -> int:
        if topic not in self._partition_counts:
            wanted = Subscription("subscribe", topics=(topic,))
            now = self._client.existing_topics(wanted)[topic]
            self._partition_counts[topic] = len(now.partitions)
        return self._partition_counts[topic]

    def _timestamps(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        now = self._client.runtime.clock.now_ms()
        if not self._options.use_timestamps:
            return np.full(rows.num_rows, now, np.int64)
        column = rows.column("timestamp").cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
        milliseconds: npt.NDArray[np.int64] = column.fill_null(now * 1000).to_numpy() // 1000
        return milliseconds


def _keep_freed_memory() -> None:
    """The arrays of one chunk are freed and those of the next are as large. glibc gives memory back
    to the system and takes it again, page by page, until it has seen a block of up to 32 MiB freed;
    from then on it keeps twice that (mallopt(3), the dynamic threshold). This is half of the time
    that encoding takes. Nothing touches the block, so it costs nothing."""
    np.empty(_LARGEST_MAPPED_BYTES, np.uint8)


def _first_topic(rows: pa.RecordBatch) -> str:
    topic = rows.column("topic")[0].as_py()
    if topic is None:
        raise SourceError("a row has no topic")
    return str(topic)


def _binary(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    if name not in rows.schema.names:
        return None
    column = rows.column(name)
    return column if column.type == pa.binary() else column.cast(pa.binary())


def _headers(rows: pa.RecordBatch) -> pa.Array | None:
    if "headers" not in rows.schema.names:
        return None
    headers = rows.column("headers")
    return None if headers.null_count == len(headers) else headers
