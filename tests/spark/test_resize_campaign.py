"""Two million keyed records, an idempotent Java producer and a group of librdkafka, while the topic
goes from 12 partitions to 5 and on to 16. For the campaign; `test_resize.py` has a small one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import ProcessCluster
from ottla.testing.java import missing_reason as missing_peer
from tests.support.campaign import table, write_page
from tests.support.judges import need
from tests.support.spark import resize_command
from tests.support.spark.resize_command import Said
from tests.support.spark.resize_traffic import GroupReader, JavaProducer, judge

pytestmark = pytest.mark.spark

RECORDS = 2_000_000
RATE = 2_000
KEYS = 5_000
RESIZE_WITHIN_S = 900.0
FENCED_WITHIN_S = 2.0
# Records for partitions that are gone fail after this: both resizes are further apart, so that none
# is sent to a partition that has come back.
DELIVERY_S = 20
JARS = "kafka-2.8.2"


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_millions_of_keyed_records(campaign: None, tmp_path: Path) -> None:
    need(missing_reason())
    need(missing_peer(JARS))
    records = int(os.environ.get("OTTLA_RECORDS") or RECORDS)
    settings = {"delivery.timeout.ms": str(1000 * DELIVERY_S), "request.timeout.ms": "10000"}
    said: list[Said] = []
    with ProcessCluster(brokers=3) as cluster:
        servers, topic = cluster.bootstrap_servers, "orders"
        cluster.create_topic(topic, partitions=12, replication_factor=3)
        producer = JavaProducer(
            *(servers, topic, tmp_path / "producer"),
            keys=KEYS,
            first=records,
            rate=RATE,
            settings=settings,
            jars=JARS,
        )
        with producer, GroupReader(servers, topic, "readers") as reader:
            producer.await_filled()
            for partitions in (5, 16):
                wanted = ["--partitions", str(partitions)]
                found = resize_command.run(
                    servers, topic, tmp_path, *wanted, timeout_s=RESIZE_WITHIN_S
                )
                print(f"to {partitions}: {found}", flush=True)
                said.append(found)
                time.sleep(DELIVERY_S + 5)
            outcomes = producer.finish()
            reader.await_numbers(outcomes.acknowledged)
    print(f"failed: {outcomes.failures}", flush=True)
    verdict = judge(outcomes, reader, sum(found.again for found in said))
    assert max(found.fenced_s for found in said) < FENCED_WITHIN_S
    write_page(
        "resize",
        "Another number of partitions, under way",
        "An idempotent Java producer (2.8.2) writes records that are numbered by key and notes "
        "itself which were acknowledged; a group of librdkafka reads. `ottla resize` takes the "
        "topic from 12 partitions to 5, and on to 16. Every acknowledged record has to reach the "
        "group, each key's in order, and again only as often as the reports and the reader's own "
        "failed commits allow (`tests/spark/test_resize_campaign.py`).",
        {
            "cluster": "3 processes, replication factor 3",
            "records at first": f"{records:,} with {KEYS:,} keys; then {RATE:,} per second",
            "acknowledged": f"{sum(map(len, outcomes.acknowledged.values())):,}, none missing",
            "failed, by the producer's errors": outcomes.failures or "none",
            "read again": f"{verdict.again:,} of {sum(found.again for found in said):,} reported "
            f"and {reader.uncommitted:,} not committed",
        },
        table(
            ("resize", "records copied", "s", "records/s", "fence"),
            (
                (
                    *(where, f"{one.records:,}", f"{one.seconds:.1f}"),
                    *(f"{one.records / one.seconds:,.0f}", f"{one.fenced_s:.2f} s"),
                )
                for where, one in zip(("12 -> 5", "5 -> 16"), said, strict=True)
            ),
        ),
    )
