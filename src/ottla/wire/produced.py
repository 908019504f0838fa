"""What a produce request's payload must look like before any log sees it.

These are the checks of ProduceRequest.validateRecords; those of Log and LogValidator need the
topic's settings and are in `storage`.
"""

from __future__ import annotations

from ottla.errors import ErrorCode, KafkaError
from ottla.wire.compression import ZSTD
from ottla.wire.primitives import Buffer
from ottla.wire.records import BatchHeader, CorruptBatch, OldMagic, iter_batches

# The first produce version whose clients may send zstd (KIP-110).
_ZSTD_FROM_VERSION = 7


def check_produced(payload: Buffer | None, api_version: int) -> BatchHeader:
    """The header of a partition's one batch; KafkaError with the code to answer otherwise.

    A partial batch at the end counts as none, as in Kafka.
    """
    batches = iter_batches(payload or b"")
    prefix = f"Produce requests with version {api_version}"
    try:
        first = next(batches, None)
        if first is None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{prefix} carry a record batch.")
        header = first[0]
        if header.codec == ZSTD and api_version < _ZSTD_FROM_VERSION:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"{prefix} cannot carry zstd.")
        if next(batches, None) is not None:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{prefix} carry exactly one record batch.")
    except OldMagic as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from error
    except CorruptBatch as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    return header
