"""GET /metrics of a cluster that is used."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from ottla.cli import main as cli_main
from ottla.testing.cluster import Cluster, free_ports
from tests.support.known_topics import await_known

WAIT_S = 15.0
REPLICAS = "kafka_server_replicamanager_"
TOPICS = "kafka_server_brokertopicmetrics_"


class Scrape:
    """What one broker shows, by name and labels."""

    def __init__(self, text: str) -> None:
        families = list(text_string_to_metric_families(text))
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
        }
        self.types = {family.name: family.type for family in families}

    def __call__(self, name: str, **labels: str) -> float:
        return self._samples.get((name, frozenset(labels.items())), 0.0)

    def names(self) -> set[str]:
        return {name for name, _ in self._samples}


class Measured(Cluster):
    def scrape(self, broker_id: int) -> Scrape:
        port = (self.options.metrics_port or 0) + broker_id
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=WAIT_S) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            return Scrape(answer.read().decode())

    def total(self, name: str, **labels: str) -> float:
        return sum(self.scrape(broker_id)(name, **labels) for broker_id in range(3))


@pytest.fixture(scope="module")
def running() -> Iterator[Measured]:
    cluster = Measured(brokers=3, overrides={"replica.lag.time.max.ms": "1500"})
    cluster.options = replace(cluster.options, metrics_port=free_ports(3))
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def topic(running: Measured) -> str:
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    admin.create_topics([NewTopic("used", 3, 3)])["used"].result(WAIT_S)
    await_known(running.bootstrap_servers, "used", 3)
    return "used"


def until(read: Callable[[], float], wanted: float) -> None:
    deadline = time.monotonic() + WAIT_S
    while read() != wanted:
        assert time.monotonic() < deadline, f"{read()} where {wanted} was to be"
        time.sleep(0.1)


def test_records_and_bytes(running: Measured, topic: str) -> None:
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "acks": "all"})
    for number in range(300):
        producer.produce(topic, b"x" * 100, partition=number % 3)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert len(consumer.consume(300, WAIT_S)) == 300
    assert running.total(TOPICS + "messagesin_total", topic=topic) == 300
    assert running.total(TOPICS + "messagesin_total", topic="") >= 300
    bytes_in = running.total(TOPICS + "bytesin_total", topic=topic)
    assert 300 * 100 < bytes_in < 300 * 200
    assert running.total(TOPICS + "bytesout_total", topic=topic) >= bytes_in
    assert running.total(TOPICS + "replicationbytesout_total", topic=topic) >= 2 * bytes_in
    assert running.total(TOPICS + "replicationbytesin_total") >= 2 * bytes_in
    assert running.total(TOPICS + "totalproducerequests_total", topic=topic) >= 3
    assert running.total(TOPICS + "totalfetchrequests_total", topic=topic) >= 9
    until(lambda: running.total("kafka_server_replicafetchermanager_maxlag"), 0)
    assert running.total("kafka_coordinator_group_groupmetadatamanager_numgroups") == 1
    assert running.total("kafka_coordinator_group_groupmetadatamanager_numgroupsstable") == 1
    consumer.close()
    for broker_id in range(3):
        scrape = running.scrape(broker_id)
        ends = [
            scrape("kafka_log_log_logendoffset", topic=topic, partition=str(p)) for p in (0, 1, 2)
        ]
        assert ends == [100.0] * 3
        assert scrape("kafka_log_log_size", topic=topic, partition="0") > 10_000


def test_requests_and_their_times(running: Measured, topic: str) -> None:
    name = "kafka_network_requestmetrics_"
    scrapes = [running.scrape(broker_id) for broker_id in range(3)]
    for api in ("Produce", "FetchConsumer", "FetchFollower", "UpdateMetadata"):
        counted = sum(scrape(name + "totaltimems_count", request=api) for scrape in scrapes)
        assert counted > 0, api
        last = sum(
            scrape(name + "totaltimems_bucket", request=api, le="+Inf") for scrape in scrapes
        )
        assert last == counted
        assert sum(scrape(name + "totaltimems_sum", request=api) for scrape in scrapes) > 0
    errors = sum(
        scrape(name + "errors_total", request="Produce", error="NONE") for scrape in scrapes
    )
    assert errors >= 3
    assert any("requests_total" in each for each in scrapes[0].names())
    connections = "kafka_server_socketservermetrics_connectioncount"
    assert all(scrape(connections) > 0 for scrape in scrapes)


def test_what_clients_use_of_their_quotas(running: Measured, topic: str) -> None:
    quota = "--alter --client watched/1 --add-config producer_byte_rate=1000"
    bootstrap = ["--bootstrap-server", running.bootstrap_servers]
    assert cli_main.run(["configs", *bootstrap, *quota.split()]) == 0
    producer = Producer(
        {"bootstrap.servers": running.bootstrap_servers, "client.id": "watched/1", "linger.ms": 0}
    )

    def waited() -> bool:
        # The brokers hear of the quota in their own time.
        producer.produce(topic, b"x" * 20_000)
        producer.flush(0.2)
        name = "kafka_server_produce_throttle_time_ms_total"
        return running.total(name, user="", client_id="watched/1") > 0

    until(waited, True)
    rate = running.total("kafka_server_produce_byte_rate", user="", client_id="watched/1")
    assert rate > 1000
    producer.purge()
    assert (
        cli_main.run(
            ["configs", *bootstrap, *quota.replace("--add", "--delete").partition("=")[0].split()]
        )
        == 0
    )


def test_the_cluster_in_numbers(running: Measured, topic: str) -> None:
    controller = "kafka_controller_kafkacontroller_"
    assert running.total(controller + "activecontrollercount") == 1
    assert running.total(controller + "offlinepartitionscount") == 0
    assert running.total(controller + "globaltopiccount") >= 1
    assert controller + "preferredreplicaimbalancecount" in running.scrape(0).names()
    assert running.total(controller + "topicstodeletecount") == 0
    assert running.total("kafka_controller_controllerstats_uncleanleaderelections_total") == 0
    assert running.total("kafka_controller_controllerstats_illegaltransitions_total") == 0
    waited = "kafka_controller_controllereventmanager_eventqueuetimems"
    assert running.total(f"{waited}_count") > 0 and running.total(f"{waited}_sum") >= 0
    assert running.scrape(0).types[waited] == "summary"
    assert running.total(REPLICAS + "partitioncount") >= 9
    until(lambda: running.total(REPLICAS + "underreplicatedpartitions"), 0)


def test_a_broker_goes_and_comes_back(running: Measured, topic: str) -> None:
    labels = {"topic": topic, "partition": "0"}
    isr = "kafka_cluster_partition_insyncreplicascount"

    def isr_size() -> float:
        return max(running.scrape(broker_id)(isr, **labels) for broker_id in alive)

    alive = [0, 1, 2]
    until(isr_size, 3)
    gone = next(
        broker_id
        for broker_id in alive
        if not running.scrape(broker_id)("kafka_controller_kafkacontroller_activecontrollercount")
    )
    alive.remove(gone)
    running.stop_broker(gone)
    until(isr_size, 2)
    assert sum(
        running.scrape(b)("kafka_cluster_partition_underreplicated", **labels) for b in alive
    )
    running.start_broker(gone)
    until(isr_size, 3)
    assert sum(running.scrape(b)(REPLICAS + "isrexpands_total") for b in alive) >= 1
