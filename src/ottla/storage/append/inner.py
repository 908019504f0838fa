"""What a leader checks in the records of a client's batch (LogValidator, DefaultRecordBatch).

Every record is read as far as Kafka 2.8.2 reads it: sizes, lengths, counts, and for compressed
batches offsets. Then come the rules of the topic. The header's latest timestamp becomes that of the
records. A batch that is to be stored in another codec is put together anew.
"""

from __future__ import annotations

from mmap import mmap

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.append.checks import CODECS, Batch, check_size
from ottla.storage.append.record_rules import RecordRules, bounds_timestamps
from ottla.storage.append.steps import Pause, Steps
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import native, records
from ottla.wire.compression import (
    NONE,
    CompressionError,
    CutShort,
    OutputTooLarge,
    compress,
    decompress,
)
from ottla.wire.native_walk import Walk, walk_over
from ottla.wire.record_walk import BadRecord, Flaw, RecordWalk
from ottla.wire.records import HEADER_BYTES, BatchHeader

# Kafka has no limit but its heap. A batch of max.message.bytes (1 MiB) rarely holds so much.
MOST_PLAIN_BYTES = 128 * 1024 * 1024
# What is made of a batch on the event loop: a millisecond or two, even if it is for nothing.
QUICK_PLAIN_BYTES = 1024 * 1024
# gzip reads some 100 MB/s; others are several times as fast.
_QUICK_PACKED_BYTES = 256 * 1024
_QUICK_COMPRESSED_BYTES = 128 * 1024
# Records that pure Python walks between two pauses (native code walks more), and those that are
# looked at one by one.
STEP_RECORDS = 2000
_STEP_SLOW_RECORDS = 500
_NO_TIME = -1


def needs_records(header: BatchHeader, settings: LogConfig) -> bool:
    """Whether anything has to be known about the records."""
    return (
        settings.validates_records
        or header.is_log_append_time
        or settings.compact
        or bounds_timestamps(settings)
        or target_codec(header, settings) != header.codec
    )


def target_codec(header: BatchHeader, settings: LogConfig) -> int:
    """What the batch is to be stored in."""
    wanted = settings.compression_type
    return header.codec if wanted == "producer" else CODECS[wanted]


def examined(tp: TopicPartition, batch: Batch, settings: LogConfig, now_ms: int) -> Steps[Batch]:
    """The batch as it is to be stored; raises KafkaError."""
    header = batch.header
    target = target_codec(header, settings)
    is_rebuilt = target != header.codec
    plain, is_cut = yield from plain_records(tp, batch)
    walk = walk_over(
        plain,
        header.record_count,
        header.base_timestamp,
        header.max_timestamp,
        wants_oldest=is_rebuilt or bounds_timestamps(settings),
    )
    try:
        while not walk.advance(native.paced(STEP_RECORDS)):
            yield Pause.SHORT
    except BadRecord as bad:
        code = _code_of(bad, header, is_rebuilt=is_rebuilt)
        raise KafkaError(code, f"Append to {tp}: {bad}") from None
    if is_cut:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Append to {tp}: a gzip stream is cut")
    is_skimmed = header.codec != NONE and not is_rebuilt
    rules = RecordRules.of_batch(tp, settings, now_ms, header, is_skimmed=is_skimmed)
    if rules.may_be_broken(walk):
        yield from _refused_records(rules, plain, header)
    if is_rebuilt:
        return (yield from _rebuilt(tp, plain, header, walk, target, settings))
    if header.codec != NONE and not walk.is_in_order:
        # 2.8.2 means to put them together anew and fails: it has skipped their content.
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Append to {tp}: the offsets in a compressed batch do not count from 0",
        )
    return _with_newest_time(batch, max(_NO_TIME, walk.newest))


def holds_quickly(view: memoryview, fields: tuple[int, ...], most_records: int) -> bool:
    """Whether a batch with these header fields is right as it is, and soon known to be; False means
    that it has to be looked at again. For the usual batch only: no rule of the topic asks more."""
    attributes, base_timestamp, newest, count = fields[5], fields[7], fields[8], fields[12]
    is_packed = attributes != NONE
    plain: memoryview | bytes | mmap = view
    begin = HEADER_BYTES
    if is_packed:
        body = view[HEADER_BYTES:]
        if len(body) > _QUICK_PACKED_BYTES:
            return False
        try:
            plain, begin = decompress(attributes, body, QUICK_PLAIN_BYTES), 0
        except CompressionError:
            return False
    code = native.code
    if code is not None:
        times = base_timestamp, newest
        return bool(code.holds(plain, begin, count, times, is_packed, most_records))
    walk = RecordWalk(bytes(plain[begin:]), count, base_timestamp, newest)
    try:
        return (
            walk.advance(most_records)
            and walk.newest == newest
            and (not is_packed or walk.is_in_order)
        )
    except BadRecord:
        return False


def plain_records(tp: TopicPartition, batch: Batch) -> Steps[tuple[bytes | mmap, bool]]:
    """The records as they are without a codec; whether they end before their time."""
    codec = batch.header.codec
    body = batch.view[HEADER_BYTES:]
    if codec == NONE:
        return bytes(body), False
    try:
        if len(body) <= _QUICK_PACKED_BYTES:
            try:
                return bytes(decompress(codec, body, QUICK_PLAIN_BYTES)), False
            except OutputTooLarge:
                pass
        yield Pause.LONG
        plain = decompress(codec, body, MOST_PLAIN_BYTES)
        return plain if isinstance(plain, mmap) else bytes(plain), False
    except CutShort as cut:
        return cut.plain, True
    except OutputTooLarge as error:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"Append to {tp}: {error}") from None
    except CompressionError as error:
        # In Kafka these are what its libraries raise.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Append to {tp}: {error}") from None


def _code_of(bad: BadRecord, header: BatchHeader, *, is_rebuilt: bool) -> ErrorCode:
    """Kafka knows most flaws; some it meets as one does a null pointer or an illegal argument."""
    is_compressed = header.codec != NONE
    match bad.flaw:
        case Flaw.SIZE_TOO_LONG:
            is_known = False
        case Flaw.SIZE_NEGATIVE:
            is_known = not (is_compressed and is_rebuilt)
        case Flaw.PAST_END:
            is_last = bad.number == header.record_count - 1
            is_known = is_compressed or (is_last and bad.left > 0)
        case _:
            is_known = True
    return ErrorCode.INVALID_RECORD if is_known else ErrorCode.UNKNOWN_SERVER_ERROR


def _refused_records(rules: RecordRules, plain: bytes | mmap, header: BatchHeader) -> Steps[None]:
    """Looks at each record; raises RecordsRejected if a rule is broken."""
    for number, record in enumerate(records.iter_plain_records(plain, header)):
        if number % _STEP_SLOW_RECORDS == 0:
            yield Pause.SHORT
        if rules.note(number, record):
            break
    rules.raise_noted()


def _with_newest_time(batch: Batch, newest_ms: int) -> Batch:
    if batch.header.max_timestamp == newest_ms:
        return batch
    records.patch_create_time(batch.view, newest_ms)
    return Batch(batch.view, records.read_header(batch.view))


def _rebuilt(
    tp: TopicPartition,
    plain: bytes | mmap,
    header: BatchHeader,
    walk: Walk,
    target: int,
    settings: LogConfig,
) -> Steps[Batch]:
    """The same records in another codec."""
    if walk.oldest < _NO_TIME:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Append to {tp}: a negative timestamp of {walk.oldest}"
        )
    if len(plain) > _QUICK_COMPRESSED_BYTES and target != NONE:
        yield Pause.LONG
    _, first_at = records.read_int(plain, 0)
    # Behind the first record's attributes: Kafka makes deltas begin with 0.
    if walk.is_in_order and plain[first_at + 1] == 0:
        attributes = header.attributes & records.TRANSACTIONAL | target
        times = (header.base_timestamp, max(_NO_TIME, walk.newest))
        fields = (*header[:5], attributes, header.last_offset_delta, *times, *header[9:13])
        made = records.assemble(fields, compress(target, memoryview(plain)))
    else:
        steps = records.build_batch_in_steps(
            records.iter_plain_records(plain, header),
            compression=target,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            transactional=header.is_transactional,
        )
        while True:
            try:
                next(steps)
            except StopIteration as done:
                made = done.value
                break
            yield Pause.SHORT
    check_size(tp, len(made), settings)
    view = memoryview(bytearray(made))
    return Batch(view, records.read_header(view))
