"""Several batches of a partition under way while its leader moves: each once, in their order."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager

import pytest

from ottla.client.admin.types import ElectionType
from ottla.pipelines.topics import with_admin
from ottla.spark.sink.work import Work
from ottla.types import TopicPartition
from tests.support.spark.judged import JUDGED
from tests.support.spark.topics import WAIT_S, Topics, rows

# A chunk is sent when it has 4 MiB: more than 200 batches, of which five are under way.
ROWS, CHUNKS = 4_500, 3
BATCH_BYTES = "20000"


@pytest.fixture(scope="module")
def topics(ottla_processes):
    return Topics(ottla_processes.bootstrap_servers)


@contextmanager
def moving_leader(topics, name):
    """Another replica leads now and then; `moved` is released once for each time."""
    partition = TopicPartition(name, 0)
    moved, problems = threading.Semaphore(0), []

    async def move(admin):
        replicas = sorted(node.id for node in await admin.cluster.nodes())
        for _ in range(CHUNKS):
            replicas = [*replicas[1:], replicas[0]]
            await admin.alter_reassignments({partition: replicas})
            while await admin.list_reassignments([partition]):
                pass
            await admin.elect_leaders(ElectionType.PREFERRED, [partition])
            moved.release()

    def work():
        try:
            with_admin(topics.servers, {}, move)
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    yield moved
    thread.join(WAIT_S)
    assert not problems and not thread.is_alive()


@pytest.mark.skipif(JUDGED == "kafka-4.1", reason="one node: no leader can move")
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_leaders_that_move_while_rows_are_written(topics, guarantee):
    name = topics.create(replicas=3)
    values = [b"%08d" % number + b"." * 1_000 for number in range(ROWS * CHUNKS)]
    options = {"topic": name, "kafka.batch.size": BATCH_BYTES, "deliveryGuarantee": guarantee}
    client = topics.client()

    def chunks(moved):
        """The leader moves while each of them is on its way."""
        for start in range(0, len(values), ROWS):
            yield rows(values[start : start + ROWS])
            assert moved.acquire(timeout=WAIT_S)

    try:
        with moving_leader(topics, name) as moved:
            written = topics.write(Work(name, 0, 0), chunks(moved), client, **options)
        assert written == len(values)
        whole = [TopicPartition(name, 0)]
        deadline = time.monotonic() + WAIT_S
        while client.latest(whole, read_committed=True)[whole[0]] < written:
            assert time.monotonic() < deadline, "the markers of the transaction"
    finally:
        client.close()
    table = topics.read(subscribe=name, **{"kafka.isolation.level": "read_committed"})
    assert [value[:8] for value in table["value"].to_pylist()] == [value[:8] for value in values]
