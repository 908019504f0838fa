"""The tools that Apache Kafka ships for moving records, of 2.8.2 and of 4.1, on our brokers.

The copier with transactions is in test_transactions_clients.py; 200,000 records of
ProducerPerformance 2.8.2, value by value, are in test_java_records.py.
"""

import json

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing.java import run_tool
from tests.support.known_topics import await_known
from tests.support.peers.java_tools import need_jars

pytestmark = pytest.mark.peers

PARTITIONS = 3
LOAD_RECORDS = 100_000
LOAD_RECORD_BYTES = 100
VERIFIED_RECORDS = 5_000
# Longer than a session on a loaded machine: it only ends a read that is stuck.
STUCK_MS = "60000"
SCALA_TOOLS = "kafka.tools"
JAVA_TOOLS = "org.apache.kafka.tools"


class Tools:
    """The tools of one release, pointed at one cluster."""

    def __init__(self, jars, cluster):
        self.jars = jars
        self.cluster = cluster

    def run(self, main_class, *arguments, stdin=""):
        place = ("--bootstrap-server", self.cluster.bootstrap_servers)
        done = run_tool(self.jars, main_class, *place, *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        return done.stdout

    def console(self, name, *arguments, stdin=""):
        package = {"Consumer": f"{JAVA_TOOLS}.consumer", "Producer": JAVA_TOOLS}[name]
        if self.jars == "kafka-2.8.2":
            package = SCALA_TOOLS
        return self.run(f"{package}.Console{name}", *arguments, stdin=stdin)


@pytest.fixture(params=["kafka-2.8.2", "kafka-4.1"])
def tools(request, ottla_processes):
    need_jars(request.param)
    return Tools(request.param, ottla_processes)


def make_topic(tools, title):
    name = f"{title}-{tools.jars}"
    admin = AdminClient({"bootstrap.servers": tools.cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 3)])[name].result(30)
    await_known(tools.cluster.bootstrap_servers, name, PARTITIONS)
    return name


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_console_consumer_prints_what_console_producer_was_given(tools, codec):
    topic = make_topic(tools, f"console-{codec}")
    lines = [f"key {number}:välue {number}" for number in range(300)] + ["key:"]
    tools.console(
        "Producer",
        *("--topic", topic, "--compression-codec", codec, "--request-required-acks", "all"),
        *("--property", "parse.key=true", "--property", "key.separator=:"),
        stdin="\n".join(lines),
    )
    printed = tools.console(
        "Consumer",
        *("--topic", topic, "--from-beginning", "--timeout-ms", STUCK_MS),
        *("--max-messages", str(len(lines)), "--property", "print.key=true"),
        *("--property", "key.separator=:"),
    )
    assert sorted(printed.splitlines()) == sorted(lines)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_what_the_load_generator_sends_its_counterpart_reads(tools, codec):
    topic = make_topic(tools, f"load-{codec}")
    sent = run_tool(
        *(tools.jars, f"{JAVA_TOOLS}.ProducerPerformance", "--topic", topic),
        *("--num-records", str(LOAD_RECORDS), "--record-size", str(LOAD_RECORD_BYTES)),
        *("--throughput", "-1", "--producer-props", "acks=all", f"compression.type={codec}"),
        f"bootstrap.servers={tools.cluster.bootstrap_servers}",
    )
    assert f"{LOAD_RECORDS} records sent" in sent.stdout, sent.stdout + sent.stderr
    assert "Exception" not in sent.stdout, "the producer counts a failed record as sent"
    package = SCALA_TOOLS if tools.jars == "kafka-2.8.2" else JAVA_TOOLS
    read = tools.run(
        f"{package}.ConsumerPerformance",
        *("--topic", topic, "--messages", str(LOAD_RECORDS), "--group", topic),
        *("--timeout", STUCK_MS),
    )
    titles, row = (line.split(", ") for line in read.splitlines()[-2:])
    columns = dict(zip(titles, row, strict=True))
    assert int(columns["data.consumed.in.nMsg"]) == LOAD_RECORDS
    megabytes = LOAD_RECORDS * LOAD_RECORD_BYTES / (1 << 20)
    assert float(columns["data.consumed.in.MB"]) == pytest.approx(megabytes, abs=0.001)


def test_the_verifiable_consumer_reads_what_the_verifiable_producer_had_acknowledged(tools):
    topic = make_topic(tools, "verifiable")
    count = ("--max-messages", str(VERIFIED_RECORDS))
    sent = events(
        tools.run(f"{JAVA_TOOLS}.VerifiableProducer", "--topic", topic, *count, "--acks", "-1")
    )
    acknowledged = {
        (event["partition"], event["offset"]): event["value"]
        for event in sent["producer_send_success"]
    }
    assert "producer_send_error" not in sent
    assert len(acknowledged) == VERIFIED_RECORDS
    assert sorted(acknowledged.values(), key=int) == [str(n) for n in range(VERIFIED_RECORDS)]
    seen = events(
        tools.run(
            f"{JAVA_TOOLS}.VerifiableConsumer",
            *("--topic", topic, *count, "--group-id", topic, "--group-instance-id", topic),
            *("--reset-policy", "earliest", "--verbose"),
        )
    )
    read = [(event["partition"], event["offset"]) for event in seen["record_data"]]
    assert len(read) == len(set(read)), "no record twice"
    assert {
        (event["partition"], event["offset"]): event["value"] for event in seen["record_data"]
    } == acknowledged
    committed = {
        place["partition"]: place["offset"]
        for event in seen["offsets_committed"]
        for place in event["offsets"]
    }
    assert all(event["success"] for event in seen["offsets_committed"])
    assert sum(committed.values()) == VERIFIED_RECORDS


def events(printed):
    """The tool's lines of JSON by their names."""
    found = {}
    for line in printed.splitlines():
        if line.startswith("{"):
            event = json.loads(line)
            found.setdefault(event["name"], []).append(event)
    return found
