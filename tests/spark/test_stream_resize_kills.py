"""`kill -9` of a streaming query, again and again, while its topic is resized: no record is missed.
For the campaign; `test_resize.py` has a query that nobody kills."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.spark.launch.session import missing_reason
from ottla.testing.cluster import ProcessCluster
from tests.support import campaign as pages
from tests.support.judges import need
from tests.support.spark import stream_driver
from tests.support.spark.topics import Topics

pytestmark = pytest.mark.spark

SIZES = (2, 5, 3)
WAIT_S = 300.0


@pytest.mark.campaign
@pytest.mark.timeout(3600)
def test_a_query_killed_while_its_topic_is_resized(campaign: None, tmp_path: Path) -> None:
    need(missing_reason())
    seed = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1_000_000))
    choice = random.Random(seed)
    sizes = SIZES[: int(os.environ.get("OTTLA_ROUNDS") or len(SIZES))]
    with ProcessCluster(brokers=3) as cluster:
        topics = Topics(cluster.bootstrap_servers)
        topic = topics.create(partitions=4, replicas=2)
        query = Query(topics.servers, topic, tmp_path)
        with acknowledged(topics.servers, topic) as acked:
            query.start()
            query.await_more(0)
            for size in sizes:
                resize_amid_kills(topics.servers, topic, size, query, choice)
                query.await_more(len(query.seen()))
        deadline = time.monotonic() + WAIT_S
        while not acked <= set(query.seen()) and time.monotonic() < deadline:
            time.sleep(1)
        query.kill()
    seen = query.seen()
    missing = len(acked - set(seen))
    rows = [(query.kills, len(sizes), f"{len(acked):,}", f"{len(seen):,}", missing)]
    head = ("kills", "resizes", "records acknowledged", "rows seen", "records missing")
    about = (
        "A streaming query with `onTopicRecreated=continue` is killed (`kill -9`, with its JVM) "
        "every few seconds while its topic gets another number of partitions. More rows than "
        "records: what a micro-batch under way had is read again."
    )
    results = pages.table(head, rows)
    pages.write_page("stream-resize", "A stream over resizes", about, {"seed": seed}, results)
    assert missing == 0 and query.kills


class Query:
    """A process of its own, with all it starts."""

    def __init__(self, servers: str, topic: str, folder: Path) -> None:
        self._out, self._log = folder / "values", folder / "driver.log"
        self._out.touch()
        checkpoint = str(folder / "checkpoint")
        self._command = [sys.executable, stream_driver.__file__, servers, topic, checkpoint]
        self.kills = 0

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, str(self._out)], stdout=log, stderr=log, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def seen(self) -> list[str]:
        return self._out.read_text().split()

    def await_more(self, than: int) -> None:
        deadline = time.monotonic() + WAIT_S
        while len(self.seen()) <= than:
            assert self._process.poll() is None, self._log.read_text()[-3000:]
            assert time.monotonic() < deadline, "nothing comes"
            time.sleep(0.3)


def resize_amid_kills(
    servers: str, topic: str, size: int, query: Query, choice: random.Random
) -> None:
    words = ["resize", topic, "--partitions", str(size), "--bootstrap-server", servers]
    command = [sys.executable, "-m", "ottla", *words, "--master", "local[1]"]
    resize = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while resize.poll() is None:
        time.sleep(choice.uniform(3, 9))
        query.kill()
        query.kills += 1
        time.sleep(choice.uniform(0, 3))
        query.start()
    told = resize.communicate()[0]
    assert resize.returncode == 0, told
    print("\n".join(line for line in told.splitlines() if "again" in line), flush=True)


@contextmanager
def acknowledged(servers: str, topic: str) -> Iterator[set[str]]:
    """Values that a producer has written, up to the end of the block."""
    settings = {"bootstrap.servers": servers, "partitioner": "murmur2_random"}
    producer = Producer(settings | {"topic.metadata.refresh.interval.ms": 500})
    acked: set[str] = set()
    done = threading.Event()

    def delivered(error: object, message: object) -> None:
        if error is None:
            acked.add(message.value().decode())  # type: ignore[attr-defined]

    def write() -> None:
        number = 0
        while not done.wait(0.1):
            for _ in range(20):
                number += 1
                # A broker may be slow to hear of the swap: what is refused here is not written.
                with suppress(KafkaException):
                    producer.produce(
                        topic, str(number), key=f"k{number % 50}", on_delivery=delivered
                    )
            producer.poll(0)
        producer.flush(60)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield acked
    finally:
        done.set()
        writer.join()
