"""The sink without Spark: tasks, attempts and transactions, on Ottla and on Apache Kafka 4.1."""

from __future__ import annotations

import itertools
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from ottla.cli.main import cli
from ottla.pipelines.noted_rows import Note, fence, read_notes, rows_beyond
from ottla.pipelines.topics import with_admin
from ottla.spark.errors import SourceError
from ottla.spark.sink import targets, task_writer
from ottla.spark.sink.work import Work
from tests.support.spark.judged import judged_cluster
from tests.support.spark.topics import WAIT_S, Topics, rows

HUNDRED = [b"%03d" % number for number in range(100)]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COMMITTED = {"kafka.isolation.level": "read_committed"}
_queries = itertools.count()


@pytest.fixture(scope="module", params=["judged", "kafka-4.1"])
def topics(request):
    if request.param == "judged":
        with judged_cluster(brokers=3) as running:
            yield Topics(running.bootstrap_servers)
    else:
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


def assert_committed(topics, names, wanted):
    """These values, or so many. Markers take a moment after the end of a transaction."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = topics.values(subscribe=names, **COMMITTED)
        seen = len(found) if isinstance(wanted, int) else found
        enough = wanted if isinstance(wanted, int) else len(wanted)
        if len(found) >= enough or time.monotonic() > deadline:
            assert seen == wanted
            return


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
    assert_committed(topics, name, HUNDRED)
    # The next micro-batch is another piece of work, and so is another task.
    assert topics.write(Work(query, 1, 0), iter([rows([b"x"])]), client, topic=name) == 1
    assert topics.write(Work(query, 1, 1), iter([rows([b"y"])]), client, topic=name) == 1
    assert_committed(topics, name, [*HUNDRED, b"x", b"y"])


def test_an_attempt_with_other_rows_is_refused(topics, client, query):
    """Rows that are in another task now would be lost or come twice."""
    name = topics.create(partitions=2)
    assert topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name) == 100
    with pytest.raises(SourceError, match="has 99 rows now and had 100 when it was written"):
        topics.write(Work(query, 3, 0), iter([rows(HUNDRED[1:])]), client, topic=name)
    others = [*HUNDRED[1:], b"another"]
    with pytest.raises(SourceError, match="has 100 rows as it had when it was written, but other"):
        topics.write(Work(query, 3, 0), iter([rows(others)]), client, topic=name)
    with pytest.raises(SourceError, match="has more than 100 rows now and had 100"):
        topics.write(Work(query, 3, 0), iter([rows(HUNDRED), rows([b"x"])]), client, topic=name)
    with pytest.raises(SourceError, match="has 0 rows now and had 100"):
        topics.write(Work(query, 3, 0), iter([]), client, topic=name)
    # The order and the cuts between batches may be others.
    again = [rows(HUNDRED[60:]), rows([]), rows(HUNDRED[:60])]
    assert topics.write(Work(query, 3, 0), iter(again), client, topic=name) == 0
    assert_committed(topics, name, HUNDRED)


def forget(topics, message):
    """Does what a refusal says, to the letter."""
    command = re.search(r"ottla groups .*", message)[0].split()
    result = CliRunner().invoke(cli, command[1:])
    assert result.exit_code == 0, result.output


def test_work_that_is_older_than_what_was_done_is_refused_until_it_is_forgotten(
    topics, client, query
):
    """As when an older checkpoint is put back: the rows were left out without a word."""
    name = topics.create(partitions=2)
    # Tasks 1 and 4 have no rows in batch 2; 3 and 4 are beyond the partitions, 3 never has any.
    for batch, task, value in [
        (0, 0, b"0"),
        (1, 0, b"1"),
        (1, 1, b"b"),
        (1, 4, b"c"),
        (2, 0, b"2"),
    ]:
        topics.write(Work(query, batch, task), iter([rows([value])]), client, topic=name)
    for task in (0, 1, 3, 4):
        with pytest.raises(SourceError, match=r"batch 1 is older than micro-batch 2") as refused:
            topics.write(Work(query, 1, task), iter([rows([b"again"])]), client, topic=name)
    with pytest.raises(SourceError, match="is older than"):
        topics.write(Work(query, 1, 0), iter([]), client, topic=name)
    assert_committed(topics, name, [b"0", b"1", b"2", b"b", b"c"])
    forget(topics, str(refused.value))
    for task in (0, 1, 3, 4):
        row = [b"again-%d" % task]
        assert topics.write(Work(query, 1, task), iter([rows(row)]), client, topic=name) == 1
    assert_committed(topics, name, 9)


def test_an_older_number_of_a_program_is_done(topics, client, query):
    """txnVersion outside of a query, as Delta Lake has it."""
    name, other = topics.create(partitions=2), topics.create(partitions=2)

    def write(version, values, target):
        work = Work(query, version, 0, in_query=False)
        return topics.write(work, iter([rows(values)]), client, topic=target)

    assert [write(2, HUNDRED, name), write(1, [b"x"], name), write(2, HUNDRED, name)] == [100, 0, 0]
    with pytest.raises(SourceError, match="task 0 of txnVersion 2 has 1 rows now and had 100"):
        write(2, [b"x"], name)
    # Another topic of the same program has a memory of its own.
    assert [write(2, [b"x"], other), write(2, [b"x"], other)] == [1, 0]


def test_notes_that_somebody_changed_by_hand(topics, client, query):
    name = topics.create(partitions=1)
    topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name)
    group = f"ottla-sink-{query}"
    arguments = f"--bootstrap-server {topics.servers} --group {group} --topic {name}"
    reset = f"groups {arguments} --reset-offsets --to-latest --execute"
    assert CliRunner().invoke(cli, reset.split()).exit_code == 0
    with pytest.raises(SourceError, match="micro-batch 3 is older than micro-batch 101"):
        topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name)
    # What the number alone says is believed.
    assert topics.write(Work(query, 101, 0), iter([rows([b"x"])]), client, topic=name) == 0
    assert topics.write(Work(query, 102, 0), iter([rows([b"x"])]), client, topic=name) == 1


def test_the_memory_goes_with_its_topic(topics, client, query):
    """The records of a topic that was deleted are gone: they are written to the new one."""
    name = topics.create(partitions=1)
    topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name)
    topics.delete(name)
    topics.create(partitions=1, name=name)
    # A coordinator hears of a deletion when it hears of it.
    deadline = time.monotonic() + WAIT_S
    while topics.write(Work(query, 3, 0), iter([rows(HUNDRED)]), client, topic=name) == 0:
        assert time.monotonic() < deadline
    assert_committed(topics, name, HUNDRED)


class SlowClock:
    """Time passes when somebody says so."""

    def __init__(self, real):
        self._real = real
        self.passed_ms = 0.0

    def now_ms(self):
        return self._real.now_ms()

    def monotonic_ms(self):
        return self.passed_ms


@pytest.fixture
def slow(client, monkeypatch):
    """Rows that come after so many milliseconds of a task's clock, and are sent at once."""
    clock = SlowClock(client.runtime.clock)
    client.runtime = replace(client.runtime, clock=clock)
    monkeypatch.setattr(task_writer, "CHUNK_BYTES", 1)

    def come(batches, each_ms):
        for batch in batches:
            clock.passed_ms += each_ms
            yield batch

    return come


FIVE_TIMES = [rows(HUNDRED[start : start + 20]) for start in range(0, 100, 20)]


def test_a_long_task_is_several_transactions_and_goes_on_where_it_was(topics, client, query, slow):
    name = topics.create(partitions=2)

    def watched():
        """What is written is there before the next rows come; markers take a moment."""
        for place, batch in enumerate(slow(FIVE_TIMES, each_ms=250_000)):
            deadline = time.monotonic() + WAIT_S
            while (seen := len(topics.values(subscribe=name, **COMMITTED))) < 20 * place:
                assert time.monotonic() < deadline, seen
            assert seen == 20 * place
            yield batch

    assert topics.write(Work(query, 0, 0), watched(), client, topic=name) == 100
    assert topics.write(Work(query, 0, 0), slow(FIVE_TIMES, 1), client, topic=name) == 0
    assert_committed(topics, name, HUNDRED)
    # The next one is cut short.
    broken = slow(broken_after(*FIVE_TIMES[:3]), each_ms=250_000)
    with pytest.raises(Broken):
        topics.write(Work(query, 1, 0), broken, client, topic=name)
    done = 100 + 60
    assert_committed(topics, name, done)
    first_others = [rows(HUNDRED[::-1])]
    with pytest.raises(SourceError, match="the first 60 rows are other ones now"):
        topics.write(Work(query, 1, 0), iter(first_others), client, topic=name)
    with pytest.raises(SourceError, match="has 20 rows now and had at least 60"):
        topics.write(Work(query, 1, 0), iter(FIVE_TIMES[:1]), client, topic=name)
    with pytest.raises(SourceError, match="micro-batch 0 is older than micro-batch 1"):
        topics.write(Work(query, 0, 0), iter(FIVE_TIMES), client, topic=name)
    others = [rows(HUNDRED[:70]), *(rows([value]) for value in HUNDRED[70:])]
    assert topics.write(Work(query, 1, 0), iter(others), client, topic=name) == 40
    assert topics.write(Work(query, 1, 0), iter(FIVE_TIMES), client, topic=name) == 0
    assert_committed(topics, name, sorted(HUNDRED * 2))


def test_a_long_task_that_had_written_all_of_it(topics, client, query, slow):
    """Only the word that it is finished is missing."""
    name = topics.create(partitions=1)
    broken = slow(broken_after(*FIVE_TIMES), each_ms=250_000)
    with pytest.raises(Broken):
        topics.write(Work(query, 0, 0), broken, client, topic=name)
    for _ in range(2):
        assert topics.write(Work(query, 0, 0), iter(FIVE_TIMES), client, topic=name) == 0
    assert_committed(topics, name, HUNDRED)
    with pytest.raises(SourceError, match="has more than 100 rows now"):
        topics.write(Work(query, 0, 0), iter([*FIVE_TIMES, rows([b"x"])]), client, topic=name)


def test_a_long_task_whose_rows_say_where_they_go(topics, client, query, slow):
    one, two = topics.create(partitions=2), topics.create(partitions=1)
    names = [one, one, two, two, one]
    batches = [
        rows(HUNDRED[20 * place :][:20], topic=pa.array([name] * 20))
        for place, name in enumerate(names)
    ]
    with pytest.raises(Broken):
        broken = slow(broken_after(*batches[:4]), each_ms=250_000)
        topics.write(Work(query, 0, 1), broken, client)
    assert topics.write(Work(query, 0, 1), iter(batches), client) == 20
    assert topics.write(Work(query, 0, 1), iter(batches[::-1]), client) == 0
    assert_committed(topics, f"{one},{two}", HUNDRED)


def test_a_transaction_that_was_open_for_too_long(topics, client, query, slow):
    """Nobody could expect the pause. What brokers do when the time is over is what fencing does."""
    name = topics.create(partitions=1)

    def paused():
        yield from slow(FIVE_TIMES[:1], each_ms=1)
        with_admin(topics.servers, {}, lambda admin: fence(admin, query, [0]))
        yield from slow(FIVE_TIMES[1:], each_ms=300_000)

    words = r"open for longer than kafka\.transaction\.timeout\.ms=300000.*give it more"
    with pytest.raises(SourceError, match=words):
        topics.write(Work(query, 0, 0), paused(), client, topic=name)
    assert topics.values(subscribe=name, **COMMITTED) == []
    options = {"topic": name, "kafka.transaction.timeout.ms": "900001"}
    with pytest.raises(SourceError, match=r"transaction\.timeout\.ms=900001 is more than .* allow"):
        topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, **options)


def test_more_tasks_than_partitions_and_a_topic_that_grows(topics, client, query):
    name = topics.create(partitions=1)
    works = [Work(query, 4, task) for task in range(4)]
    for work in works:
        assert topics.write(work, iter([rows([b"%d" % work.sink_partition])]), client, topic=name)
    topics.grow(name, 4)
    for work in works:
        again = iter([rows([b"%d" % work.sink_partition])])
        assert topics.write(work, again, client, topic=name) == 0
    assert_committed(topics, name, [b"0", b"1", b"2", b"3"])


def test_a_failed_attempt_leaves_nothing_behind(topics, client, query):
    name = topics.create(partitions=2)
    many = [b"%06d" % number for number in range(60_000)]
    large = rows(many, key=pa.array(many, pa.binary()), pad=pa.array([b"p" * 90] * 60_000))

    def broken_when_sent():
        yield large
        deadline = time.monotonic() + WAIT_S
        while topics.values(subscribe=name) != many:
            assert time.monotonic() < deadline
        raise Broken

    with pytest.raises(Broken):
        topics.write(Work(query, 0, 0), broken_when_sent(), client, topic=name)
    assert topics.values(subscribe=name) == many, "it was sent, and aborted"
    assert topics.values(subscribe=name, **COMMITTED) == []
    assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=name) == 100
    assert_committed(topics, name, HUNDRED)


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
    assert_committed(topics, name, HUNDRED)


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
    assert_committed(topics, name, 210)
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
    assert_committed(topics, one, [b"a", b"c"])
    assert_committed(topics, two, [b"b"])


def test_what_cannot_be_written(topics, client, query):
    name = topics.create(partitions=2)

    def write(batch, **options):
        topics.write(Work(query, 0, 0), iter([batch]), client, **options)

    with pytest.raises(SourceError, match=r"topic 'no where': .*invalid topic"):
        write(rows([b"x"]), topic="no where")
    with pytest.raises(SourceError, match="has 2 partitions, there is no 2"):
        write(rows([b"x"], partition=pa.array([2], pa.int32())), topic=name)
    early = rows([b"x"], timestamp=pa.array([-1], pa.timestamp("us", tz="UTC")))
    with pytest.raises(SourceError, match=r"a row has the timestamp -1 .* negative"):
        write(early, topic=name, useTimestampColumn="true")
    for guarantee in ("exactly_once", "at_least_once"):
        nameless = rows([b"x"], headers=pa.array([[(None, b"1")]], HEADERS))
        with pytest.raises(SourceError, match="key of a header, is null"):
            write(nameless, topic=name, deliveryGuarantee=guarantee)
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


def test_a_topic_that_is_not_there_is_made(topics, client, query):
    """By the brokers, as with the official connector; with topicPartitions on purpose."""
    by_brokers, on_purpose = f"{query}-by-brokers", f"{query}-on-purpose"
    assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=by_brokers) == 100
    options = {"topic": on_purpose, "topicPartitions": "4", "topicReplicationFactor": "1"}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda task: write_alone(topics, Work(query, 0, task), options), range(4)))
    assert_committed(topics, by_brokers, HUNDRED)
    assert_committed(topics, on_purpose, sorted(HUNDRED * 4))
    found = client.topics(topics.source(subscribe=on_purpose).subscription)
    assert len(found[on_purpose].partitions) == 4
    # One that is there stays as it is.
    options["topicPartitions"] = "9"
    topics.write(Work(query, 1, 0), iter([rows(HUNDRED)]), client, **options)
    found = client.topics(topics.source(subscribe=on_purpose).subscription)
    assert len(found[on_purpose].partitions) == 4


def write_alone(topics, work, options):
    client = topics.client()
    try:
        topics.write(work, iter([rows(HUNDRED)]), client, **options)
    finally:
        client.close()


def test_a_topic_that_brokers_would_not_make_so(topics, client, query):
    options = {"topic": f"{query}-wide", "topicPartitions": "1", "topicReplicationFactor": "99"}
    with pytest.raises(SourceError, match=r"cannot be made: .*99"):
        topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, **options)
    options = {"topic": "no where", "topicPartitions": "1"}
    with pytest.raises(SourceError, match="no where"):
        topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, **options)


def test_brokers_that_make_no_topics_by_themselves(query, monkeypatch):
    monkeypatch.setattr(targets, "_PATIENCE_MS", 300)
    with judged_cluster(overrides={"auto.create.topics.enable": "false"}) as cluster:
        topics = Topics(cluster.bootstrap_servers)
        client = topics.client()
        name = f"{query}-nowhere"
        with pytest.raises(SourceError, match=rf"topic {name} does not exist .* topicPartitions"):
            topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, topic=name)
        made = {"topic": name, "topicPartitions": "2"}
        assert topics.write(Work(query, 0, 0), iter([rows(HUNDRED)]), client, **made) == 100
        client.close()
