"""The source, without Spark, where there is nothing to read: markers, aborted records, open
transactions. Every task must end, and at once."""

from __future__ import annotations

import itertools

import pytest
from confluent_kafka import Producer

from ottla.spark.errors import OffsetError
from ottla.spark.source.offsets import OffsetRange
from ottla.spark.source.stream import StreamPlanner
from tests.support.spark.topics import WAIT_S, Topics, read_ranges

# Well below the minute after which a task that gets nothing gives up.
pytestmark = pytest.mark.timeout(40, func_only=True)
COMMITTED = {"kafka.isolation.level": "read_committed"}
# (committed, records); a marker follows each.
TRANSACTIONS = [(True, 3), (False, 3), (False, 2), (True, 1), (False, 2)]


@pytest.fixture(scope="module", params=["judged", "kafka-4.1"])
def topics(request):
    running = request.getfixturevalue("ottla_processes" if request.param == "judged" else "kraft")
    return Topics(running.bootstrap_servers)


def transactional_producer(topics, name):
    producer = Producer({"bootstrap.servers": topics.servers, "transactional.id": f"of-{name}"})
    producer.init_transactions(WAIT_S)
    return producer


@pytest.fixture(scope="module")
def written(topics):
    """The topic, and the offsets of its records: all of them, and those that count."""
    name = topics.create()
    producer = transactional_producer(topics, name)
    everything, committed, offset = [], [], 0
    for counts, records in TRANSACTIONS:
        producer.begin_transaction()
        for _ in range(records):
            producer.produce(name, b"-", partition=0)
            assert producer.flush(WAIT_S) == 0, "a batch of its own"
        (producer.commit_transaction if counts else producer.abort_transaction)(WAIT_S)
        everything += range(offset, offset + records)
        committed += range(offset, offset + records) if counts else ()
        offset += records + 1
    return name, everything, committed, offset


@pytest.mark.parametrize("fetch_bytes", ["1", "4000000"])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_every_range_ends_whatever_is_in_it(topics, written, isolation, fetch_bytes):
    name, everything, committed, end = written
    options = topics.source(
        subscribe=name,
        **{"kafka.isolation.level": isolation, "kafka.max.partition.fetch.bytes": fetch_bytes},
    )
    (whole,) = topics.ranges(options)
    assert (whole.start, whole.end) == (0, end)
    expected = committed if isolation == "read_committed" else everything
    client = topics.client()
    try:
        for first, last in itertools.combinations(range(end + 1), 2):
            task = OffsetRange(name, whole.topic_id, 0, first, last)
            found = read_ranges(client, [task], options)["offset"].to_pylist()
            assert found == [offset for offset in expected if first <= offset < last]
    finally:
        client.close()


def test_times_do_not_lead_into_an_open_transaction(topics):
    name = topics.create()
    values = [b"%02d" % number for number in range(10)]
    topics.fill(name, values, partition=0)  # timestamps 1000 to 10,000
    producer = transactional_producer(topics, name)
    producer.begin_transaction()
    for number in range(10, 15):
        producer.produce(name, b"%02d" % number, partition=0, timestamp=1000 * (number + 1))
    assert producer.flush(WAIT_S) == 0
    try:
        asked = {"subscribe": name, **COMMITTED}
        assert topics.values(**asked, endingTimestamp="13000") == values
        assert topics.values(**asked, startingTimestamp="13000") == [], "not yet"
        by_partition = {"startingOffsetsByTimestamp": f'{{"{name}":{{"0":13000}}}}'}
        assert topics.values(**asked, **by_partition) == []
        with pytest.raises(OffsetError, match="has no record at or after timestamp 16000"):
            topics.values(**asked, startingTimestamp="16000")
        later = {"startingTimestamp": "13000", "startingOffsetsByTimestampStrategy": "latest"}
        assert topics.values(**asked, **later) == []
        assert len(topics.values(subscribe=name, startingTimestamp="13000")) == 3, "uncommitted"
    finally:
        producer.abort_transaction(WAIT_S)


def test_a_stream_starts_at_a_time_inside_an_open_transaction(topics):
    """At its first record: what is committed later is read then, and nothing seems lost before."""
    name = topics.create()
    topics.fill(name, [b"old"] * 3, partition=0)  # timestamps 1000 to 3000
    producer = transactional_producer(topics, name)
    producer.begin_transaction()
    for timestamp in (9_000, 10_000):
        producer.produce(name, b"%d" % timestamp, partition=0, timestamp=timestamp)
    assert producer.flush(WAIT_S) == 0
    options = topics.source(True, subscribe=name, startingTimestamp="10000", **COMMITTED)
    planner = StreamPlanner(options)
    client = topics.client()
    try:
        start = planner.initial()
        assert start[name]["partitions"] == {"0": 3}
        assert planner.latest(start, None, None) == start
        producer.commit_transaction(WAIT_S)
        while (end := planner.latest(start, None, None)) == start:
            pass
        found = read_ranges(client, planner.ranges(start, end), options)
        assert found["value"].to_pylist() == [b"9000", b"10000"]
    finally:
        planner.close()
        client.close()
