"""A topic that is made again under a task, on whichever broker is judged: brokers before Kafka 3.1
are asked by name, and answer for the new one."""

from __future__ import annotations

import pytest

from ottla.spark.errors import TopicRecreated
from ottla.spark.source.range_reader import RangeReader
from tests.support.spark.topics import Topics, read_ranges

HUNDRED = [b"%03d" % number for number in range(100)]


def test_records_of_another_topic_are_never_taken_for_those_of_the_first(ottla_processes):
    topics = Topics(ottla_processes.bootstrap_servers)
    name = topics.create()
    topics.fill(name, HUNDRED, partition=0, **{"batch.size": 100})
    options = topics.source(subscribe=name, **{"kafka.max.partition.fetch.bytes": "100"})
    ranges = topics.ranges(options)
    client = topics.client()
    try:
        begun = RangeReader(client, ranges[0], options).batches()
        assert next(begun)["offset"].to_pylist() == [0]
        topics.delete(name)
        topics.create(name=name)
        topics.fill(name, [b"other"] * 100, partition=0)
        for rest in (lambda: list(begun), lambda: read_ranges(client, ranges, options)):
            with pytest.raises(TopicRecreated, match="was deleted and made again while it was"):
                rest()
    finally:
        client.close()
