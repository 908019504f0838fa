"""Which partition each row of a column of keys goes to: `ottla.topics.partitioners`, vectorised."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.topics.partitioners import MURMUR2_MULTIPLIER, MURMUR2_SEED, POSITIVE
from ottla.wire import native
from ottla.wire.columnar_encode import exported

_SEED = np.uint32(MURMUR2_SEED)
_MULTIPLIER = np.uint32(MURMUR2_MULTIPLIER)
_MASK = 0xFFFFFFFF
# So many keys are worth a step of numpy; fewer are hashed one after the other.
_FEW = 100
_PIECE_BYTES = 1 << 18


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Kafka's 32-bit murmur2 of every key (Utils.murmur2); what null has is not defined."""
    if native.code is not None:
        hashes = np.frombuffer(native.code.murmur2_of_all(exported(keys), len(keys)), np.int64)
        return hashes.astype(np.uint32)
    return _murmur2_in_python(keys)


def _murmur2_in_python(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Word after word of all keys that have so many; where few are left, key after key."""
    bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data_buffer = keys.buffers()[2]
    data = np.frombuffer(data_buffer if data_buffer is not None else b"", np.uint8)
    lengths = np.diff(bounds)
    starts = bounds[:-1].astype(np.int64)
    counts = lengths >> 2
    order: npt.NDArray[np.int64] | slice = slice(None)
    if len(keys) and int(counts.min()) != int(counts.max()):
        order = _falling(counts)
        starts, lengths, counts = starts[order], lengths[order], counts[order]
    values = _SEED ^ lengths.astype(np.uint32)
    _take_words(values, data, starts, counts)
    _take_rest(values, data, starts, lengths)
    values ^= values >> np.uint32(13)
    values *= _MULTIPLIER
    values ^= values >> np.uint32(15)
    hashes = np.empty_like(values)
    hashes[order] = values
    return hashes


def _falling(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """numpy sorts 16-bit numbers by radix, several times faster: what is longer goes together."""
    down = np.maximum(0xFFFF - counts, 0)
    order = np.argsort(down.astype(np.uint16), kind="stable")
    long = int(np.count_nonzero(down == 0))
    order[:long] = order[:long][np.argsort(-counts[order[:long]], kind="stable")]
    return order


def _take_words(
    values: npt.NDArray[np.uint32],
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int32],
) -> None:
    """`counts` falls: how many whole words each key has."""
    if not len(counts) or not int(counts[0]):
        return
    # A word at every byte of the data.
    words = np.ndarray((len(data) - 3,), "<u4", data, strides=(1,))
    # How many keys have more than so many words: up to here they are hashed abreast.
    side_by_side = int(counts[_FEW - 1]) if len(counts) >= _FEW else 0
    actives = np.searchsorted(-counts, -np.arange(side_by_side), side="left").tolist()
    for index, active in enumerate(actives):
        part = values[:active]
        part *= _MULTIPLIER
        part ^= _mixed(words[starts[:active] + 4 * index])
    for place in range(int(np.searchsorted(-counts, -side_by_side, side="left"))):
        first = int(starts[place]) + 4 * side_by_side
        last = int(starts[place]) + 4 * int(counts[place])
        values[place] = _go_on(int(values[place]), data[first:last])


def _go_on(value: int, data: npt.NDArray[np.uint8]) -> int:
    """One key's hash after more whole words. Only the chain itself cannot be done abreast."""
    for first in range(0, len(data), _PIECE_BYTES):
        words = data[first : first + _PIECE_BYTES].copy().view("<u4")
        for word in _mixed(words).tolist():
            value = (value * MURMUR2_MULTIPLIER & _MASK) ^ word
    return value


def _mixed(words: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    words *= _MULTIPLIER
    words ^= words >> np.uint32(24)
    words *= _MULTIPLIER
    return words


def _take_rest(
    values: npt.NDArray[np.uint32],
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int32],
) -> None:
    """The up to three bytes after the last whole word."""
    rests = lengths & 3
    for size in (1, 2, 3):
        having = np.flatnonzero(rests == size)
        if not len(having):
            continue
        positions = starts[having] + (lengths[having] & ~3)
        word = data.take(positions).astype(np.uint32)
        for index in range(1, size):
            word |= data.take(positions + index).astype(np.uint32) << np.uint32(8 * index)
        values[having] = (values[having] ^ word) * _MULTIPLIER


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
