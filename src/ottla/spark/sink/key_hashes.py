"""The hashes of `ottla.topics.partitioners` for whole columns of keys."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.spark.sink.partitioner import murmur2
from ottla.topics.partitioners import (
    FNV1A_MULTIPLIER,
    FNV1A_SEED,
    POSITIVE,
    Partitioner,
    hash_of,
    without_sign,
)

Hashes = npt.NDArray[np.uint32]
# Takes in one more byte of each key: the hashes so far, and the bytes.
Step = Callable[[Hashes, npt.NDArray[np.uint8]], Hashes]

# So many keys are worth a step of numpy; what few keys have beyond it is hashed key by key.
_FEW = 100
_MASK = np.uint32(0xFFFFFFFF)
_CRC32_POLYNOMIAL = 0xEDB88320


def key_hashes(partitioner: Partitioner, keys: pa.Array) -> npt.NDArray[np.int64]:
    """`hash_of` every key; what null has is not defined."""
    if partitioner is Partitioner.MURMUR2:
        return (murmur2(keys) & np.uint32(POSITIVE)).astype(np.int64)
    if partitioner is Partitioner.FNV1A:
        hashes = _abreast(keys, partitioner, np.uint32(FNV1A_SEED), _fnv1a_step)
        signed = hashes.view(np.int32).astype(np.int64)
        return np.abs(signed)
    hashes = _abreast(keys, partitioner, _MASK, _crc32_step)
    return (hashes ^ _MASK).astype(np.int64)


def _fnv1a_step(hashes: Hashes, taken: npt.NDArray[np.uint8]) -> Hashes:
    return (hashes ^ taken) * np.uint32(FNV1A_MULTIPLIER)


def _crc32_table() -> Hashes:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(
            table & np.uint32(1), np.uint32(_CRC32_POLYNOMIAL), np.uint32(0)
        )
    return table.astype(np.uint32)


_CRC32 = _crc32_table()


def _crc32_step(hashes: Hashes, taken: npt.NDArray[np.uint8]) -> Hashes:
    stepped: Hashes = _CRC32[(hashes ^ taken) & np.uint32(0xFF)] ^ (hashes >> np.uint32(8))
    return stepped


def _abreast(keys: pa.Array, partitioner: Partitioner, seed: np.uint32, step: Step) -> Hashes:
    """Byte after byte of all keys that have so many; the last few long ones by themselves."""
    bounds = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1]
    content = keys.buffers()[2]
    data = np.frombuffer(content if content is not None else b"", np.uint8)
    lengths = np.diff(bounds)
    order = np.argsort(-lengths, kind="stable")
    starts, falling = bounds[:-1][order].astype(np.int64), lengths[order]
    values = np.full(len(keys), seed, np.uint32)
    most = int(falling[_FEW - 1]) if len(falling) >= _FEW else 0
    actives = np.searchsorted(-falling, -np.arange(most), side="left").tolist()
    for index, active in enumerate(actives):
        values[:active] = step(values[:active], data[starts[:active] + index])
    view = data.data
    for place in range(int(np.searchsorted(-falling, -most, side="left"))):
        first = int(starts[place])
        values[place] = _raw(partitioner, bytes(view[first : first + int(falling[place])]))
    hashes = np.empty_like(values)
    hashes[order] = values
    return hashes


def _raw(partitioner: Partitioner, key: bytes) -> int:
    """As the steps leave it: the way back from `hash_of`, where the sign does not matter."""
    value = hash_of(partitioner, key)
    return without_sign(value) if partitioner is Partitioner.FNV1A else value ^ 0xFFFFFFFF
