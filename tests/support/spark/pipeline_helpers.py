"""What the tests of pipelines share: a judge that knows nothing of Spark, and waiting."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from ottla.pipelines.runner import PipelineRun

DEADLINE_S = 120


def read_topic(servers: str, topic: str) -> list[Message]:
    """All committed records of a topic, partition by partition in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, index, 0) for index in partitions])
        found: list[Message] = []
        at_end: set[int | None] = set()
        deadline = time.monotonic() + DEADLINE_S
        while at_end != set(partitions):
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF
                    at_end.add(message.partition())
        return sorted(found, key=lambda m: (m.partition(), m.offset()))
    finally:
        consumer.close()


def wait_for(run: PipelineRun, condition) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert run.poll(), run.report().lines()
        assert time.monotonic() < deadline, run.report().lines()
        time.sleep(0.1)
