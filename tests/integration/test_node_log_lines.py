"""The lines of the server log that people look for when a topic is made."""

from __future__ import annotations

import asyncio
import logging

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.integration.local_cluster import LocalCluster


async def test_a_creation_leaves_its_lines(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def create() -> None:
        own = {"retention.ms": "1000", "cleanup.policy": "compact,delete"}
        topic = NewTopic("t", 2, 3, config=own)
        for future in admin.create_topics([topic]).values():
            future.result(10)

    await asyncio.to_thread(create)
    await cluster.until_all_know("t", 2, 3)
    text = caplog.text
    assert (
        "Creating topic t with configuration {" in text
        and "'retention.ms': '1000'" in text
        and "} and initial partition assignment {0: [" in text
    )
    assert text.count("Created log for partition t-0 in ") == 3, "one on every broker"
    # The topic's own settings and no others, as in Apache Kafka 2.8.2.
    own = "with properties {cleanup.policy=compact,delete, retention.ms=1000}\n"
    assert text.count(own) == 6, "both partitions, all brokers"
    assert "New partition creation callback for t-0,t-1" in text


async def test_a_topic_made_by_itself_leaves_its_line(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin = AdminClient(
        {"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": "true"}
    )
    await asyncio.to_thread(admin.list_topics, "by-itself", 10)
    await cluster.until_all_know("by-itself", 1, 1)
    line = (
        "Auto creation of topic by-itself with 1 partitions and replication factor 1 is successful"
    )
    await cluster.until(lambda: line in caplog.text, "the line is logged")
