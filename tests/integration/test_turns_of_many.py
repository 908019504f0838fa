"""More busy clients than a broker can serve at once: each has its turn, newcomers too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import ProcessCluster
from tests.support.broker.produce_requests import produce_frame
from tests.support.broker.replica_cluster import client_batch
from tests.support.integration.busy_crowd import BusyCrowd

WAIT_S = 120.0
# libuv looks at 1,024 at a time, and goes on without giving a turn to anything else.
MANY = 1400
NEWCOMERS = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[ProcessCluster]:
    with ProcessCluster(brokers=1) as cluster:
        cluster.create_topic("t", partitions=1)
        yield cluster


@pytest.fixture
def crowd(cluster: ProcessCluster) -> Iterator[BusyCrowd]:
    host, _, port = cluster.bootstrap_servers.partition(":")
    frame = produce_frame(client_batch(10), version=9)
    sent = len(frame).to_bytes(4, "big") + bytes(frame)
    with BusyCrowd((host, int(port)), sent) as crowd:
        yield crowd


@pytest.mark.parametrize("count", [300, MANY])
def test_newcomers_are_served_while_others_are_busy(crowd: BusyCrowd, count: int) -> None:
    answers = crowd.answers
    busy = crowd.join(count)
    crowd.run_until(lambda: all(answers[fd] >= 3 for fd in busy), WAIT_S)
    before = dict(answers)
    newcomers = crowd.join(NEWCOMERS)
    crowd.run_until(lambda: all(answers[fd] for fd in newcomers), WAIT_S)
    least, *_, most = rounds = sorted(answers[fd] - before[fd] for fd in busy)
    usual = rounds[count // 2]
    assert usual <= NEWCOMERS // 25, f"the others were answered {usual} times meanwhile"
    assert most <= 2 * least + 2, f"one was answered {most} times, another {least} times"
