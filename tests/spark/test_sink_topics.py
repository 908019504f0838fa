"""The sink without Spark: tasks, attempts and transactions, on Ottla and on Apache Kafka 4.1."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from ottla.pipelines.noted_rows import Note, fence, read_notes, rows_beyond
from ottla.pipelines.topics import with_admin
from ottla.spark.errors import SourceError
from ottla.spark.sink.work import Work
from ottla.testing.cluster import Cluster
from tests.support.spark.topics import WAIT_S, Topics, rows

HUNDRED = [b"%03d" % number for number in range(100)]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COMMITTED = {"kafka.isolation.level": "read_committed"}
_queries = itertools.count()


@pytest.fixture(scope="module", params=["ottla", "kafka-4.1"])
def topics(request):
    if request.param == "ottla":
        with Cluster(brokers=3) as running:
            yield Topics(running.bootstrap_servers)
        return
    yield Topics(request.getfixturevalue("kraft").bootstrap_servers)


@pytest.fixture
def client(topics):
    made = topics.client()
    yield made
    made.close()


@pytest.fixture
def query():
    return f"query-{next(_queries)}"


class Broken(Exception):
    """The input of a task ends badly."""


def broken_after(*batches):
    yield from batches
    raise Broken


def test_a_client_of_others_reads_what_was_written(topics, client, query):
    name = topics.create(partitions=3)
    batch = rows(
        [b"one", None, b"three"],
        key=pa.array([b"a", b"b", None], pa.binary()),
        partition=pa.array([2, None, 1], pa.int32()),
        headers=pa.array([[("h", b"1"), ("n", None)], None, []], HEADERS),
        timestamp=pa.array([5_000_000, None, 7_000_000], pa.timestamp("us", tz="UTC")),
    )
    options = {"topic": name, "useTimestampColumn": "true", "kafka.compression.type": "zstd"}
    assert topics.write(Work(query, 0, 0), iter([batch]), client, **options) == 3
    consumer = Consumer(
        {
            "bootstrap.servers": topics.servers,
            "group.id": query,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([name])
    found = {}
    for _ in range(3):
        message = consumer.poll(WAIT_S)
        assert message is not None and message.error() is None
        found[message.key()] = message
    consumer.close()
    assert {key: m.value() for key, m in found.items()} == {
        b"a": b"one",
        b"b": None,
        None: b"three",
    }
    assert (found[b"a"].partition(), found[None].partition()) == (2, 1)
    assert found[b"a"].headers() == [("h", b"1"), ("n", None)]
    assert not found[b"b"].headers() and not found[None].headers()
    assert (found[b"a"].timestamp()[1], found[None].timestamp()[1]) == (5_000, 7_000)
    assert found[b"b"].timestamp()[1] > 1_000_000


def test_an_attempt_after_the_commit_writes_nothing(topics, client, query):
    name = topics.create(partitions=2)
    for _ in range(3):
        topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=name)
    assert topics.values(subscribe=name, **COMMITTED) == HUNDRED
    # The next micro-batch is another piece of work, and so is another task.
    assert topics.write(Work(query, 1, 0), iter([rows([b"x"])]), client, topic=name) == 1
    assert topics.write(Work(query, 1, 1), iter([rows([b"y"])]), client, topic=name) == 1
    assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=name) == 0
    assert topics.values(subscribe=name, **COMMITTED) == [*HUNDRED, b"x", b"y"]


def test_an_attempt_with_other_rows_is_refused(topics, client, query):
    """Rows that are in another task now would be lost or come twice."""
    name = topics.create(partitions=2)
    assert topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name) == 100
    with pytest.raises(SourceError, match="has 99 rows now and had 100 when it was written"):
        topics.write(Work(query, 3, 0), iter([rows(HUNDRED[1:])]), client, topic=name)
    assert topics.values(subscribe=name, **COMMITTED) == HUNDRED


def test_more_tasks_than_partitions_and_a_topic_that_grows(topics, client, query):
    name = topics.create(partitions=1)
    works = [Work(query, 4, task) for task in range(4)]
    for work in works:
        assert topics.write(work, iter([rows([b"%d" % work.sink_partition])]), client, topic=name)
    topics.grow(name, 4)
    for work in works:
        written = topics.write(work, iter([rows([b"again"])]), client, topic=name)
        assert written == 0
    assert topics.values(subscribe=name, **COMMITTED) == [b"0", b"1", b"2", b"3"]


def test_a_failed_attempt_leaves_nothing_behind(topics, client, query):
    name = topics.create(partitions=2)
    many = [b"%06d" % number for number in range(60_000)]
    large = rows(many, key=pa.array(many, pa.binary()), pad=pa.array([b"p" * 90] * 60_000))
    with pytest.raises(Broken):
        topics.write(Work(query, 0, 0), broken_after(large, large), client, topic=name)
    assert set(topics.values(subscribe=name)) == set(many), "it was sent, and aborted"
    assert topics.values(subscribe=name, **COMMITTED) == []
    assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=name) == 100
    assert topics.values(subscribe=name, **COMMITTED) == HUNDRED


def test_an_older_attempt_cannot_commit_any_more(topics, client, query):
    """As with a driver that was thought dead: its task wakes up after the new one has begun."""
    name = topics.create(partitions=1)
    other = topics.client()

    def overtaken():
        yield rows(HUNDRED)
        assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), other, topic=name) == 100
        yield rows([b"zombie"])

    with pytest.raises(SourceError):
        topics.write(Work(query, 0, 0), overtaken(), client, topic=name)
    other.close()
    assert topics.values(subscribe=name, **COMMITTED) == HUNDRED


def test_a_query_that_was_stopped_counts_what_is_there_and_ends_the_rest(topics, client, query):
    """A task that goes on after the stop commits no more; what others have written is counted."""
    name = topics.create(partitions=2)

    def notes():
        return with_admin(topics.servers, {}, lambda admin: read_notes(admin, query))

    assert notes() == {}
    for task in (0, 1):
        topics.write(Work(query, 4, task), iter([rows(HUNDRED)]), client, topic=name)
    topics.write(Work(query, 5, 0), iter([rows(HUNDRED[:7])]), client, topic=name)
    topics.write(Work(query, 5, 2), iter([rows(HUNDRED[:3])]), client, topic=name)
    assert notes() == {0: Note(5, 7), 1: Note(4, 100), 2: Note(5, 3)}

    def stopped():
        yield rows(HUNDRED)
        with_admin(topics.servers, {}, lambda admin: fence(admin, query, range(3)))

    with pytest.raises(SourceError):
        topics.write(Work(query, 5, 1), stopped(), client, topic=name)
    assert rows_beyond(notes(), 4) == 10
    assert len(topics.values(subscribe=name, **COMMITTED)) == 210
    # The next run does the batch again: only the task that was stopped has something to write.
    redone = [
        topics.write(Work(query, 5, task), iter([rows(HUNDRED[:count])]), client, topic=name)
        for task, count in enumerate((7, 100, 3))
    ]
    assert redone == [0, 100, 0]


def test_at_least_once_needs_no_transaction(topics, client, query):
    name = topics.create(partitions=2)
    for _ in range(2):
        topics.write(
            *(Work(query, 0, 0), iter([rows(HUNDRED)]), client),
            topic=name,
            deliveryGuarantee="at_least_once",
        )
    assert topics.values(subscribe=name) == sorted(HUNDRED * 2)


def test_rows_say_where_they_go(topics, client, query):
    one, two = topics.create(partitions=2), topics.create(partitions=1)
    batch = rows([b"a", b"b", b"c"], topic=pa.array([one, two, one]))
    assert topics.write(Work(query, 0, 0), iter([batch]), client) == 3
    # After a shuffle the rows of an attempt may come in another order.
    again = batch.take(pa.array([1, 2, 0]))
    assert topics.write(Work(query, 0, 0), iter([again]), client) == 0
    assert topics.values(subscribe=one, **COMMITTED) == [b"a", b"c"]
    assert topics.values(subscribe=two, **COMMITTED) == [b"b"]


def test_what_cannot_be_written(topics, client, query):
    name = topics.create(partitions=2)

    def write(batch, **options):
        topics.write(Work(query, 0, 0), iter([batch]), client, **options)

    with pytest.raises(SourceError, match="topic nowhere does not exist"):
        write(rows([b"x"]), topic="nowhere")
    with pytest.raises(SourceError, match="has 2 partitions, there is no 2"):
        write(rows([b"x"], partition=pa.array([2], pa.int32())), topic=name)
    with pytest.raises(SourceError, match="a row has no topic"):
        write(rows([b"x"], topic=pa.array([None], pa.string())))
    with pytest.raises(SourceError, match=r"kafka\.batch\.size makes smaller ones"):
        write(rows([b"x" * 3_000_000]), topic=name)
    assert topics.values(subscribe=name, **COMMITTED) == []


def test_no_rows_no_transaction(topics, client, query):
    name = topics.create()
    assert topics.write(Work(query, 0, 0), iter([]), client, topic=name) == 0
    assert topics.write(Work(query, 0, 0), iter([rows([])]), client, topic=name) == 0
    assert topics.read(subscribe=name).num_rows == 0
