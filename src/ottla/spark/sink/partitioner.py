"""Which partition each row of a column of keys goes to: `ottla.client.partitioner`, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.partitioner import MURMUR2_MULTIPLIER, MURMUR2_SEED, POSITIVE
from ottla.wire import native
from ottla.wire.columnar_encode import exported

_SEED = np.uint32(MURMUR2_SEED)
_MULTIPLIER = np.uint32(MURMUR2_MULTIPLIER)
_MASK = 0xFFFFFFFF
# A step for all keys of one length takes as long as so many steps of a single one, whose beginning
# takes as long as so many of them.
_STEP_OF_ALL, _BEGINNING = 250, 100


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit murmur2 of every key (Utils.murmur2); what null has is not defined."""
    if native.code is not None:
        hashes = np.frombuffer(native.code.murmur2_of_all(exported(keys), len(keys)), np.int64)
        return hashes.astype(np.uint32)
    return _murmur2_in_python(keys)


def _murmur2_in_python(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Keys of one length are hashed together, word by word; where they are few, one by one."""
    bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data_buffer = keys.buffers()[2]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    lengths = np.diff(bounds)
    hashes = np.empty(len(keys), np.uint32)
    for length in np.unique(lengths).tolist():
        same = np.flatnonzero(lengths == length)
        starts = bounds[:-1][same].astype(np.int64)
        words = length // 4
        if len(same) * (words + _BEGINNING) < words * _STEP_OF_ALL:
            hashes[same] = [_hash_of_one(data[start : start + length]) for start in starts.tolist()]
        else:
            hashes[same] = _hash_of_length(data, starts, length)
    return hashes


def _hash_of_one(key: npt.NDArray[np.uint8]) -> int:
    """What can be done to all words at once is done so; each step of the rest needs the one before
    it."""
    whole = len(key) & ~3
    words = key[:whole].view("<u4") * _MULTIPLIER
    words ^= words >> np.uint32(24)
    words *= _MULTIPLIER
    value = (MURMUR2_SEED ^ len(key)) & _MASK
    for word in words.tolist():
        value = value * MURMUR2_MULTIPLIER & _MASK ^ word
    if len(key) != whole:
        value ^= int.from_bytes(key[whole:].tobytes(), "little")
        value = value * MURMUR2_MULTIPLIER & _MASK
    value = (value ^ value >> 13) * MURMUR2_MULTIPLIER & _MASK
    return value ^ value >> 15


def _hash_of_length(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], length: int
) -> npt.NDArray[np.uint32]:
    value = np.full(len(starts), _SEED ^ np.uint32(length), np.uint32)
    whole = length & ~3
    for position in range(0, whole, 4):
        word = _little_endian(data, starts + position, 4) * _MULTIPLIER
        word ^= word >> np.uint32(24)
        value = value * _MULTIPLIER ^ word * _MULTIPLIER
    if length != whole:
        value = (value ^ _little_endian(data, starts + whole, length - whole)) * _MULTIPLIER
    value ^= value >> np.uint32(13)
    value *= _MULTIPLIER
    value ^= value >> np.uint32(15)
    return value


def _little_endian(
    data: npt.NDArray[np.uint8], positions: npt.NDArray[np.int64], size: int
) -> npt.NDArray[np.uint32]:
    word = data.take(positions).astype(np.uint32)
    for index in range(1, size):
        word |= data.take(positions + index).astype(np.uint32) << np.uint32(8 * index)
    return word


def partitions_of(
    keys: pa.Array | None, count: int, partition_count: int, sticky: int
) -> npt.NDArray[np.int64]:
    """Rows with a key go where its hash says; all others to the one partition `sticky`."""
    if keys is None:
        return np.full(count, sticky, np.int64)
    chosen = (murmur2(keys) & np.uint32(POSITIVE)).astype(np.int64) % partition_count
    if keys.null_count:
        chosen[keys.is_null().to_numpy(zero_copy_only=False)] = sticky
    return chosen
