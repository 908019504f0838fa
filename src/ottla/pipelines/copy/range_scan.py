"""What a copy has written to a target partition, told by the producer ids of the batches; runs in a
Spark task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ottla.pipelines.copy.order import OrderDigest, digest_of
from ottla.pipelines.copy.parts import Ends, Found, ScanPart, ScanResult
from ottla.spark.sink.digest import row_hashes
from ottla.spark.source.range_fetcher import Fetched
from ottla.spark.source.range_reader import RangeReader

if TYPE_CHECKING:
    import numpy.typing as npt

    from ottla.spark.kafka import KafkaClient
    from ottla.wire.columnar import Batch


def scan(client: KafkaClient, ends: Ends, part: ScanPart) -> ScanResult:
    reader = RangeReader(client, part.target, ends.read_back)
    kept: dict[int, list[npt.NDArray[np.uint64]]] = {}
    places: dict[int, tuple[int, int]] = {}
    orders: dict[int, OrderDigest] = {}
    foreign = 0
    for fetched in reader.answers():
        for source, batches in _by_source(fetched.batches, part.producers).items():
            if source is None:
                foreign += sum(batch.header.record_count for batch in batches)
                continue
            for rows in reader.decode(Fetched(fetched.start, batches)):
                hashes = row_hashes(rows)
                orders[source] = orders.get(source, OrderDigest()).then(digest_of(hashes))
                if part.with_hashes:
                    offsets = rows.column("offset")
                    first, _ = places.get(source, (offsets[0].as_py(), 0))
                    places[source] = (first, offsets[-1].as_py())
                    kept.setdefault(source, []).append(hashes)
    found = {
        source: Found(np.concatenate(hashes).tobytes(), *places[source])
        for source, hashes in kept.items()
    }
    return ScanResult(part.target.partition, found, orders, foreign)


def _by_source(batches: list[Batch], producers: dict[int, int]) -> dict[int | None, list[Batch]]:
    groups: dict[int | None, list[Batch]] = {}
    for batch in batches:
        groups.setdefault(producers.get(batch.header.producer_id), []).append(batch)
    return groups
