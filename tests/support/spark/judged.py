"""The cluster that is judged: Ottla's, or with `OTTLA_JUDGED` Apache Kafka's in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ottla.testing.cluster import Cluster, ProcessCluster
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, KraftKafka, missing_reason
from tests.support.judges import need

JUDGES = ("ottla", "kafka-2.8.2", "kafka-4.1")
JUDGED = os.environ.get("OTTLA_JUDGED", "ottla")
AnyCluster = Cluster | ProcessCluster | ApacheKafka | KraftKafka


@contextmanager
def judged_cluster(
    brokers: int = 1, overrides: Mapping[str, str] | None = None, *, processes: bool = False
) -> Iterator[AnyCluster]:
    """Ottla's brokers are in this process unless `processes` says otherwise. Apache Kafka 4.1 is
    always one node."""
    assert JUDGED in JUDGES, f"OTTLA_JUDGED is one of {', '.join(JUDGES)}, not {JUDGED!r}"
    if JUDGED == "ottla":
        kind = ProcessCluster if processes else Cluster
        with kind(brokers=brokers, overrides=overrides) as cluster:
            yield cluster
        return
    need(missing_reason(JUDGED))
    if JUDGED == "kafka-4.1":
        with KraftKafka(overrides=overrides) as kraft:
            yield kraft
        return
    need(missing_reason("zookeeper-3.8"))
    with (
        ApacheZooKeeper() as zookeeper,
        ApacheKafka(zookeeper.address, brokers=brokers, overrides=overrides) as kafka,
    ):
        yield kafka
