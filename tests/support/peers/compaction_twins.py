"""One log, compacted by Ottla and by Apache Kafka from the same segments: what is left is the same.

The first part of it counts as compacted before, so that tombstones and markers are old enough to
go, and the abort of a transaction in there has nothing to say about the same producer's next one.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ottla.config.broker import BrokerConfig
from ottla.runtime import system_runtime
from ottla.storage import checkpoints
from ottla.storage.manager.log_manager import LogManager
from ottla.storage.segment import transaction_index
from ottla.topics.configs import LogConfig
from ottla.types import TopicPartition
from ottla.wire import records
from tests.support.peers.java_tools import eventually

TOPIC = "twins"
PARTITION = TopicPartition(TOPIC, 0)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_SETTINGS = {"segment.bytes": "3000", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}
_HOUR_S = 3600
# (base offset, last offset delta, attributes, epoch, producer, largest timestamp, records)
Batch = tuple[object, ...]


def create(admin: AdminClient) -> None:
    """Not compacted for now."""
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1, config=_SETTINGS)]).values():
        made.result(15)


def fill(bootstrap: str) -> None:
    """Several codecs; producers that are idempotent, and that commit and abort transactions."""
    draw = random.Random(28)
    common = {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
    plain = [Producer({**common, "compression.type": codec}) for codec in CODECS]
    transactional = [Producer({**common, "transactional.id": f"twin-{n}"}) for n in range(3)]
    for producer in transactional:
        producer.init_transactions(30)
    for _ in range(150):
        producer = draw.choice((*plain, *transactional))
        if producer in transactional:
            producer.begin_transaction()
        for _ in range(draw.randrange(1, 7)):
            value = None if draw.random() < 0.25 else b"%d" % draw.randrange(10**6)
            producer.produce(TOPIC, value, b"key-%d" % draw.randrange(150))
        assert producer.flush(20) == 0
        if producer in transactional:
            end = producer.commit_transaction if draw.random() < 0.5 else producer.abort_transaction
            end(30)


def prepare(data: Path) -> None:
    """Segments of different age, up to the middle counted as compacted; nobody uses the folder."""
    logs = sorted((data / str(PARTITION)).glob("*.log"))
    assert len(logs) > 4
    now_s = int(time.time())
    for age, path in enumerate(reversed(logs)):
        os.utime(path, (now_s - age * _HOUR_S, now_s - age * _HOUR_S))
    checkpoint = data / checkpoints.CLEANED
    offsets = checkpoints.decode_offsets(checkpoint.read_bytes())
    offsets[PARTITION] = int(logs[len(logs) // 2].stem)
    checkpoint.write_bytes(checkpoints.encode_offsets(offsets))


def compacted_by_ottla(data: Path, copy: Path) -> list[Batch]:
    """In a copy of the folder."""
    shutil.copytree(data, copy)
    config = BrokerConfig(
        {"zookeeper.connect": "nowhere:1", "log.dirs": str(copy), "log.cleaner.threads": "0"}
    )
    compact = LogConfig(
        cleanup_policy=frozenset({"compact"}),
        segment_bytes=3000,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=0,
    )

    async def run() -> None:
        logs = LogManager(
            system_runtime(), config, lambda topic: compact if topic == TOPIC else LogConfig()
        )
        await logs.start()
        assert await logs.cleaner.clean_next() is logs.get(PARTITION)
        await logs.shutdown()

    asyncio.run(run())
    return contents(copy)


def compacted_by_kafka(bootstrap: str, data: Path) -> list[Batch]:
    """By the broker that runs on the folder."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    policy = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[policy])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(15)
    newest = int(max((data / str(PARTITION)).glob("*.log")).stem)

    def cleaned() -> int:
        found = checkpoints.decode_offsets((data / checkpoints.CLEANED).read_bytes())
        return found.get(PARTITION, -1)

    eventually(cleaned, lambda offset: offset == newest)
    return contents(data)


def contents(data: Path) -> list[Batch]:
    """All batches with their records, and after each segment its aborted transactions."""
    found: list[Batch] = []
    for path in sorted((data / str(PARTITION)).glob("*.log")):
        found.append(("segment", path.name, int(path.stat().st_mtime)))
        for header, view in records.iter_batches(memoryview(path.read_bytes())):
            found.append(
                (
                    *(header.base_offset, header.last_offset_delta, header.attributes),
                    header.partition_leader_epoch,
                    *(header.producer_id, header.producer_epoch, header.base_sequence),
                    header.max_timestamp,
                    tuple(records.iter_records(view)),
                )
            )
        index = path.with_suffix(".txnindex")
        entries = transaction_index.decode(index.read_bytes()) if index.exists() else []
        found.append(("aborted", tuple(entries)))
    return found
