"""Kafka's own tool reads what transactions leave on disk: markers, indexes, snapshots, the log of
the coordinator. `ottla dump-log` prints the same."""

import re

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli import main
from ottla.testing.cluster import Cluster
from ottla.wire import records
from tests.support.peers.java_tools import eventually

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def stopped_cluster(tmp_path_factory):
    """The folder of a broker that wrote two transactions, aborted and committed, and stopped."""
    data = tmp_path_factory.mktemp("transactions")
    overrides = {"transaction.state.log.num.partitions": "1"}
    with Cluster(1, data=data, overrides=overrides) as cluster:
        servers = {"bootstrap.servers": cluster.bootstrap_servers}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result()
        producer = Producer({**servers, "transactional.id": "writer"})
        producer.init_transactions(TIMEOUT_S)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for number in range(3):
                producer.produce("t", str(number))
            producer.flush(TIMEOUT_S)
            end(TIMEOUT_S)
        log = data / "broker-0" / "__transaction_state-0" / f"{0:020d}.log"
        eventually(lambda: len(list(records.iter_batches(log.read_bytes()))), lambda n: n == 7)
        cluster.stop_broker(0)
    return data / "broker-0"


def dump(java_tool, capsys, *arguments):
    run = java_tool("kafka-2.8.2", "kafka.tools.DumpLogSegments")
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert main.run(["dump-log", *arguments]) == 0
    assert capsys.readouterr().out == done.stdout
    return done.stdout


def test_the_log_and_its_markers(stopped_cluster, java_tool, capsys):
    shown = dump(
        java_tool, capsys, "--deep-iteration", "--files", f"{stopped_cluster}/t-0/{0:020d}.log"
    )
    markers = re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", shown)
    assert [kind for kind, _ in markers] == ["ABORT", "COMMIT"]
    assert shown.count("isTransactional: true") >= 4


def test_the_index_of_aborted_transactions(stopped_cluster, java_tool, capsys):
    shown = dump(java_tool, capsys, "--files", f"{stopped_cluster}/t-0/{0:020d}.txnindex")
    assert re.search(
        r"version: 0 producerId: \d+ firstOffset: 0 lastOffset: 3 lastStableOffset: 4", shown
    ), shown


def test_the_snapshot_of_producers(stopped_cluster, java_tool, capsys):
    shown = dump(java_tool, capsys, "--files", f"{stopped_cluster}/t-0/{8:020d}.snapshot")
    assert re.search(r"producerId: \d+ producerEpoch: 0 coordinatorEpoch: 0", shown), shown
    assert "currentTxnFirstOffset: None" in shown


def test_the_log_of_the_coordinator(stopped_cluster, java_tool, capsys):
    path = f"{stopped_cluster}/__transaction_state-0/{0:020d}.log"
    shown = dump(java_tool, capsys, "--transaction-log-decoder", "--files", path)
    states = re.findall(r"key: transaction_metadata::transactionalId=writer.*?state=(\w+)", shown)
    assert states == [
        *("Empty", "Ongoing", "PrepareAbort", "CompleteAbort"),
        *("Ongoing", "PrepareCommit", "CompleteCommit"),
    ], shown
