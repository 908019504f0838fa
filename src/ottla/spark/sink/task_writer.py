"""One task of the sink: Arrow record batches in, stored records out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import OttlaError
from ottla.spark.errors import SourceError
from ottla.spark.kafka import KafkaClient
from ottla.spark.options import SinkOptions
from ottla.spark.sink.cuts import Cuts
from ottla.spark.sink.digest import digest_of
from ottla.spark.sink.notes import Note, OtherRows, StaleWork, Tally, check_same, rows_done
from ottla.spark.sink.partitioner import partitions_of
from ottla.spark.sink.places import Places, transactional_id
from ottla.spark.sink.producer import BatchProducer
from ottla.spark.sink.refusals import way_out
from ottla.spark.sink.targets import partition_count
from ottla.spark.sink.transactions import Transaction
from ottla.wire.columnar_encode import DEFAULT_BATCH_BYTES, Rows, encode

if TYPE_CHECKING:
    import numpy.typing as npt

    from ottla.spark.sink.work import Work

# What is encoded and sent together: enough that batches are large, little enough to stay in memory.
CHUNK_BYTES = 4 * 1024 * 1024
_LARGEST_MAPPED_BYTES = 32 * 1024 * 1024 - 64 * 1024


class TaskWriter:
    """One attempt of one task: gathers rows into chunks, spreads them over partitions, sends them.

    Exactly once, the attempt is a transaction that also notes which work it has done; one that
    takes long is several, each of which notes how far it came.
    """

    def __init__(self, client: KafkaClient, options: SinkOptions, work: Work) -> None:
        self._client = client
        self._options = options
        self._work = work
        self._places = Places(work.query_id, work.sink_partition)
        self._partition_counts: dict[str, int] = {}
        self._sticky = work.sink_partition
        self._tally = Tally()
        self._cuts = Cuts(options.transaction_timeout_ms)
        _keep_freed_memory()

    def write(self, batches: Iterator[pa.RecordBatch]) -> int:
        """How many rows this attempt wrote: none where an earlier one did it all."""
        filled = self._timed(batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if self._options.exactly_once:
            return self._write_once(first, filled)
        if first is None:
            return 0
        producer = BatchProducer(self._client, self._options, None)
        producer.start()
        try:
            return self._write_rows(producer, chain([first], filled), None)
        except BaseException:
            producer.give_up()
            raise

    def _timed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Tells how long Spark takes to hand over rows."""
        while True:
            began = self._now_ms()
            batch = next(batches, None)
            self._cuts.waited(self._now_ms() - began)
            if batch is None:
                return
            yield batch

    def _now_ms(self) -> float:
        return self._client.runtime.clock.monotonic_ms()

    def _write_once(self, first: pa.RecordBatch | None, others: Iterator[pa.RecordBatch]) -> int:
        transaction = Transaction(
            self._client.cluster,
            transactional_id(self._work.query_id, self._work.sink_partition),
            timeout_ms=self._client.connect.timeout_ms,
            lifetime_ms=self._options.transaction_timeout_ms,
        )
        try:
            done = self._recall(transaction, first)
            rows: Iterator[pa.RecordBatch] = others if first is None else chain([first], others)
            if done is not None:
                rows = self._beyond(done, rows)
                first = next(rows, None)
                rows = rows if first is None else chain([first], rows)
        except StaleWork as error:
            if not self._work.in_query:
                return 0  # a txnVersion before the last one is done, as Delta Lake has it
            raise StaleWork(f"{error}. {way_out(self._client, self._work)}") from None
        except OtherRows as error:
            raise OtherRows(f"{error}. {way_out(self._client, self._work)}") from None
        if first is None and (done is None or done.finished):
            return 0
        return self._write_in_transactions(transaction, rows)

    def _recall(self, transaction: Transaction, first: pa.RecordBatch | None) -> Note | None:
        """What earlier attempts at this work have written."""
        if first is None:
            # Nothing to fence for: this attempt writes nothing, whatever another one does.
            lookups = self._places.lookups_without_rows(self._options.topic)
            return rows_done(
                self._work, self._client.run(transaction.recall(self._places, lookups))
            )
        topic = self._options.topic or _first_topic(first)
        count = self._partition_count(topic)
        if self._options.topic is None:
            lookups = self._places.lookups_anywhere(self._places.slot(topic, count))
        else:
            lookups = self._places.lookups(topic, count)
        # The order matters: after `begin` no earlier attempt can commit any more.
        self._client.run(transaction.begin())
        return rows_done(self._work, self._client.run(transaction.recall(self._places, lookups)))

    def _beyond(self, done: Note, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that come after those of the note, which must be the same as then."""
        if done.rows is None:
            return
        checked = False
        for batch in rows:
            # Rows that are written meanwhile are counted as well.
            known = 0 if checked else min(done.rows - self._tally.rows, batch.num_rows)
            if known:
                self._count(batch.slice(0, known))
            if known == batch.num_rows:
                continue
            if not checked:
                check_same(self._work, done, self._tally, more=True)
                checked = True
            yield batch.slice(known)
        if not checked:
            check_same(self._work, done, self._tally, more=False)

    def _count(self, rows: pa.RecordBatch) -> None:
        _check_headers(rows)
        with_topic = self._options.topic is None
        with_timestamp = self._options.use_timestamps
        digest = digest_of(rows, with_topic=with_topic, with_timestamp=with_timestamp)
        self._tally.add(rows.num_rows, digest)

    def _write_in_transactions(
        self, transaction: Transaction, rows: Iterator[pa.RecordBatch]
    ) -> int:
        producer = BatchProducer(self._client, self._options, transaction)
        producer.start()
        try:
            written = self._write_rows(producer, rows, transaction)
            self._commit(transaction, finished=True)
        except BaseException as error:
            producer.give_up()
            overdue = self._cuts.is_overdue(self._now_ms())
            self._abort(transaction)
            if overdue and isinstance(error, OttlaError):
                raise SourceError(
                    f"{self._work.title} had a transaction open for longer than "
                    f"kafka.transaction.timeout.ms={self._options.transaction_timeout_ms}, and the "
                    "brokers aborted it while its rows were waited for: give it more, up to the "
                    f"brokers' transaction.max.timeout.ms ({error})"
                ) from error
            raise
        return written

    def _commit(self, transaction: Transaction, *, finished: bool) -> None:
        """In every topic: whichever the first row of another attempt has, it finds the note."""
        note = self._tally.note(self._work.batch_id, finished=finished)
        for topic, count in self._partition_counts.items():
            self._client.run(transaction.commit_note(self._places.slot(topic, count), note))
        self._client.run(transaction.end(commit=True))
        self._cuts.ended()

    def _abort(self, transaction: Transaction) -> None:
        """Readers need not wait for the time-out; the failure that led here is what counts."""
        try:
            self._client.run(transaction.end(commit=False))
        except OttlaError:
            pass

    def _write_rows(
        self,
        producer: BatchProducer,
        batches: Iterator[pa.RecordBatch],
        transaction: Transaction | None,
    ) -> int:
        written = size = 0
        chunk: list[pa.RecordBatch] = []
        for batch in batches:
            chunk.append(batch)
            size += batch.nbytes
            written += batch.num_rows
            # Before the next rows are waited for.
            if size >= CHUNK_BYTES or self._cuts.is_due(self._now_ms()):
                self._send(producer, chunk)
                chunk, size = [], 0
            if transaction is not None and self._cuts.is_due(self._now_ms()):
                producer.flush()
                self._commit(transaction, finished=False)
        if chunk:
            self._send(producer, chunk)
        producer.flush()
        return written

    def _send(self, producer: BatchProducer, chunk: list[pa.RecordBatch]) -> None:
        rows = pa.Table.from_batches(chunk).combine_chunks().to_batches()[0]
        if self._options.exactly_once:
            self._count(rows)
            self._cuts.opened(self._now_ms())
        else:
            _check_headers(rows)
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
            count = partition_count(self._client, topic, self._options)
            self._partition_counts[topic] = count
        return self._partition_counts[topic]

    def _timestamps(self, rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        now = self._client.runtime.clock.now_ms()
        if not self._options.use_timestamps:
            return np.full(rows.num_rows, now, np.int64)
        column = rows.column("timestamp").cast(pa.timestamp("us", tz="UTC")).view(pa.int64())
        milliseconds: npt.NDArray[np.int64] = column.fill_null(now * 1000).to_numpy() // 1000
        earliest = int(milliseconds.min())
        if earliest < 0:
            # Kafka's own producers refuse it (ProducerRecord); -1 means that there is none.
            raise SourceError(
                f"a row has the timestamp {earliest} (milliseconds since 1970): records have none "
                "that is negative"
            )
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


def _check_headers(rows: pa.RecordBatch) -> None:
    headers = _headers(rows)
    if headers is not None:
        items = headers.flatten()
        if items.null_count or items.field(0).null_count:
            raise SourceError("a header, or the key of a header, is null")
