"""One range of a source partition, copied to the partitions of the target; runs in a Spark task.

The range has a producer id of its own, and its records get sequence numbers by their place in the
source. A leader takes the next number and no other (KIP-98), so that no record is stored twice or
out of order, whatever attempts of this task there are; nothing is ever stored that would have to be
taken back. An attempt that finds another ahead of it fails, and the driver looks what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.batch_pipeline import BatchPipeline
from ottla.client.sender import BatchSender, NotStored
from ottla.errors import ErrorCode
from ottla.pipelines.copy.alignment import Alignment
from ottla.pipelines.copy.key_count import KeyCount
from ottla.pipelines.copy.order import by_group, digest_of
from ottla.pipelines.copy.parts import Ends, PairResult, RangePart, RangeResult, Tally
from ottla.pipelines.copy.spans import Span, thinned
from ottla.spark.errors import SourceError
from ottla.spark.sink.digest import hashes_of, row_hashes
from ottla.spark.source.range_reader import RangeReader
from ottla.types import TopicPartition
from ottla.wire.columnar_encode import EncodedBatch, Producer, Rows, encode, seal

if TYPE_CHECKING:
    from ottla.spark.kafka import KafkaClient
    from ottla.spark.loop_thread import Work

COLUMNS = ("key", "value", "headers", "timestamp", "offset")
# What is encoded and sent together.
_CHUNK_BYTES = 4 * 1024 * 1024
# Records of one span at first, and how many spans a pair of partitions brings back.
_SPAN_RECORDS, _MAX_SPANS = 128, 256

# And which config of the target says so.
_TOO_LARGE = {
    ErrorCode.MESSAGE_TOO_LARGE: "max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "segment.bytes",
}


class AheadOfUs(SourceError):
    """Another attempt at this range has written records that this one did not know of."""


class RangeCopy:
    """Use once."""

    def __init__(
        self, reading: KafkaClient, writing: KafkaClient, ends: Ends, part: RangePart
    ) -> None:
        self._reading, self._writing = reading, writing
        self._ends, self._part = ends, part
        self._sender = BatchSender(
            writing.cluster,
            timeout_ms=writing.connect.timeout_ms,
            identity=part.identity,
            sequences={self._target(p): n for p, n in part.sequences.items()},
        )
        self._pipeline = BatchPipeline(writing.cluster, self._sender, on_stored=self._stored)
        self._under_way: Work[None] | None = None
        self._producer = Producer(*part.identity)
        self._aligned = {
            p: Alignment(np.frombuffer(found.hashes, np.uint64)) for p, found in part.found.items()
        }
        # By target partition, in the order of sending: what becomes a span when it is stored.
        self._sent: dict[int, list[npt.NDArray[np.int64]]] = {}
        self._tally = Tally()
        self._keys = KeyCount()
        self._pairs: dict[int, PairResult] = {}
        self._known_span: dict[int, tuple[int, int]] = {}

    def run(self) -> RangeResult:
        for partition, found in self._part.found.items():
            order = digest_of(np.frombuffer(found.hashes, np.uint64))
            self._pairs[partition] = PairResult(order)
        try:
            for codec, rows in self._chunks():
                self._copy(rows, codec)
            self._wait()
            self._writing.run(self._pipeline.drain())
        except SourceError as error:
            cause = error.__cause__
            self._give_up()
            if isinstance(cause, NotStored):
                raise self._explained(cause) from error
            raise
        except BaseException:
            self._give_up()
            raise
        return self._result()

    def _target(self, partition: int) -> TopicPartition:
        return TopicPartition(self._ends.target, partition)

    def _chunks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows with the codec that they had; what has another codec is another chunk."""
        reader = RangeReader(self._reading, self._part.source, self._ends.read)
        chunk: list[pa.RecordBatch] = []
        size, codec = 0, 0
        for fetched in reader.answers():
            if not fetched.batches:
                continue
            latest = fetched.batches[-1].header.codec
            if chunk and latest != codec:
                yield codec, _joined(chunk)
                chunk, size = [], 0
            codec = latest
            for rows in reader.decode(fetched):
                chunk.append(rows)
                size += rows.nbytes
                if size >= _CHUNK_BYTES:
                    yield codec, _joined(chunk)
                    chunk, size = [], 0
        if chunk:
            yield codec, _joined(chunk)

    def _copy(self, rows: pa.RecordBatch, codec: int) -> None:
        hashes = row_hashes(rows)
        self._count(rows)
        places = self._ends.placement.places(rows.column("key"), self._part.source.partition)
        self._tally.misplaced += places.misplaced
        offsets = rows.column("offset").to_numpy()
        new = np.ones(len(offsets), np.bool_) if self._aligned else None
        queues: dict[int, npt.NDArray[np.int64]] = {}
        for target, where in by_group(places.targets):
            where = self._leave_out(target, where, hashes, offsets, new)
            if len(where):
                pair = self._pairs.setdefault(target, PairResult())
                pair.order = pair.order.then(digest_of(hashes[where]))
                queues[target] = offsets[where]
        targets = places.targets
        if new is not None and not new.all():
            rows, targets = rows.filter(pa.array(new)), targets[new]
        if len(targets):
            self._send(rows, targets, queues, codec)

    def _leave_out(
        self,
        target: int,
        where: npt.NDArray[np.intp],
        hashes: npt.NDArray[np.uint64],
        offsets: npt.NDArray[np.int64],
        new: npt.NDArray[np.bool_] | None,
    ) -> npt.NDArray[np.intp]:
        """The rows that are not there yet."""
        aligned = self._aligned.get(target)
        if aligned is None or new is None:
            return where
        known = aligned.known(hashes[where])
        if known:
            first, _ = self._known_span.get(target, (int(offsets[where[0]]), 0))
            self._known_span[target] = (first, int(offsets[where[known - 1]]))
            new[where[:known]] = False
        return where[known:]

    def _count(self, rows: pa.RecordBatch) -> None:
        keys = rows.column("key")
        self._tally.records += rows.num_rows
        self._tally.without_key += keys.null_count
        self._tally.tombstones += rows.column("value").null_count
        if keys.null_count < len(keys):
            self._keys.add(hashes_of(keys.drop_null() if keys.null_count else keys))

    def _send(
        self,
        rows: pa.RecordBatch,
        targets: npt.NDArray[np.int64],
        queues: dict[int, npt.NDArray[np.int64]],
        codec: int,
    ) -> None:
        headers = rows.column("headers")
        timestamps = rows.column("timestamp").view(pa.int64()).to_numpy() // 1000
        encoded = encode(
            Rows(
                rows.column("key"),
                rows.column("value"),
                timestamps,
                None if headers.null_count == len(headers) else headers,
            ),
            targets,
            batch_bytes=self._ends.batch_bytes,
        )
        sealed = [self._seal(batch, queues, codec) for batch in encoded]
        self._wait()
        self._under_way = self._writing.begin(self._pipeline.put(sealed))

    def _seal(
        self, batch: EncodedBatch, queues: dict[int, npt.NDArray[np.int64]], codec: int
    ) -> tuple[TopicPartition, memoryview]:
        target = self._target(batch.partition)
        offsets = queues[batch.partition]
        queues[batch.partition] = offsets[batch.records :]
        self._sent.setdefault(batch.partition, []).append(offsets[: batch.records])
        sequence = self._sender.take_sequence(target, batch.records)
        whole = seal(batch, compression=codec, producer=self._producer, sequence=sequence)
        return target, memoryview(whole)

    def _stored(self, target: TopicPartition, number: int, base_offset: int) -> None:
        """On the client's thread, one call after the other; the list is long enough by now."""
        if base_offset < 0:
            raise SourceError(f"{target}: its leader does not say where a batch was stored")
        offsets = self._sent[target.partition][number]
        spans = self._pairs[target.partition].spans
        for at in range(0, len(offsets), _SPAN_RECORDS):
            run, base = offsets[at : at + _SPAN_RECORDS], base_offset + at
            spans.append(Span(int(run[0]), int(run[-1]), base, base + len(run) - 1, len(run)))

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            self._writing.result(under_way)

    def _give_up(self) -> None:
        try:
            self._writing.run(self._pipeline.give_up())
            self._wait()
        except SourceError:
            pass  # the failure that led here is what counts

    def _explained(self, error: NotStored) -> SourceError:
        if error.code in (
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
        ):
            return AheadOfUs(f"{error.partition}: another attempt has written here ({error})")
        if error.code in _TOO_LARGE:
            return SourceError(
                f"{error.partition} does not take a batch of {error.batch_bytes} bytes: give the "
                f"target a larger {_TOO_LARGE[error.code]}"
            )
        return SourceError(f"{error.partition}: {error}")

    def _result(self) -> RangeResult:
        for partition, (first, last) in self._known_span.items():
            found = self._part.found[partition]
            count = len(found.hashes) // 8
            known = Span(first, last, found.first, found.last, count)
            self._pairs[partition].spans.append(known)
        for pair in self._pairs.values():
            pair.spans = thinned(sorted(pair.spans), _MAX_SPANS)
        return RangeResult(
            self._part.source.partition, self._tally, self._keys.registers(), self._pairs
        )


def _joined(chunk: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(chunk) == 1:
        return chunk[0]
    return pa.Table.from_batches(chunk).combine_chunks().to_batches()[0]
