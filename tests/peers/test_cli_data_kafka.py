"""`ottla produce` and `consume` on Apache Kafka 2.8.2, with Kafka's console tools beside them."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.cli import main as cli_main
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, java_command, run_tool
from tests.support.peers.java_tools import ToolSession, need_jars

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[ApacheKafka]:
    need_jars("kafka-2.8.2")
    with ApacheKafka(f"{apache_zookeeper.address}/data", brokers=1) as kafka:
        yield kafka


class Said(NamedTuple):
    code: int
    lines: list[str]
    error: str


def run_ottla(kafka: ApacheKafka, command: str, *arguments: str) -> Said:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw)
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        place = ["--bootstrap-server", kafka.bootstrap_servers]
        code = cli_main.run([command, *place, *arguments])
    out.flush()
    return Said(code, raw.getvalue().decode().splitlines(), err.getvalue().rstrip("\n"))


def ottla(kafka: ApacheKafka, command: str, *arguments: str) -> list[str]:
    said = run_ottla(kafka, command, *arguments)
    assert said.code == 0, said.error
    return said.lines


def console(main_class: str, *arguments: str, given: str = "") -> list[str]:
    done = subprocess.run(
        [*java_command("kafka-2.8.2", main_class), *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_stores_what_we_write(kafka: ApacheKafka, tmp_path: Path, codec: str) -> None:
    topic = f"by-ottla-{codec}"
    ottla(kafka, "topics", "--create", "--topic", topic, "--partitions", "3")
    path = tmp_path / "lines"
    path.write_text("".join(f"k{n}\tvalue {n}\n" for n in range(500)))
    ottla(kafka, "produce", topic, "--file", str(path), "--key-separator", "\\t",
          "--compression", codec)  # fmt: skip
    assert sorted(ottla(kafka, "consume", topic, "--keys")) == sorted(path.read_text().splitlines())


def test_both_consoles_print_the_same(kafka: ApacheKafka, tmp_path: Path) -> None:
    ottla(kafka, "topics", "--create", "--topic", "same", "--partitions", "2")
    path = tmp_path / "lines"
    path.write_text("h:1,i:2\tkey\tours\n\tother\tours too\n")
    ottla(kafka, "produce", "same", "--file", str(path), "--headers", "--key-separator", "\\t")
    console(
        "kafka.tools.ConsoleProducer", "--bootstrap-server", kafka.bootstrap_servers,
        "--topic", "same", "--property", "parse.key=true",
        given="key\ttheirs\nother\ttheirs too\n",
    )  # fmt: skip
    theirs = console(
        "kafka.tools.ConsoleConsumer", "--bootstrap-server", kafka.bootstrap_servers,
        "--topic", "same", "--from-beginning", "--max-messages", "4",
        "--property", "print.timestamp=true", "--property", "print.partition=true",
        "--property", "print.offset=true", "--property", "print.headers=true",
        "--property", "print.key=true",
    )  # fmt: skip
    ours = ottla(kafka, "consume", "same", "--timestamps", "--positions", "--headers", "--keys")
    assert sorted(ours) == sorted(theirs) and len(ours) == 4
    words = []
    for name in ("print.key=true", "print.headers=true", "print.value=false", "key.separator=|",
                 "null.literal=-", "headers.separator=+"):  # fmt: skip
        words += ["--property", name]
    theirs = console(
        "kafka.tools.ConsoleConsumer", "--bootstrap-server", kafka.bootstrap_servers,
        "--topic", "same", "--from-beginning", "--max-messages", "4", *words,
    )  # fmt: skip
    assert sorted(ottla(kafka, "consume", "same", *words)) == sorted(theirs) and len(theirs) == 4


def test_a_group_of_ours_and_of_kafkas_console(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Each goes on where the other stopped; then both are members at a time."""
    bootstrap = ("--bootstrap-server", kafka.bootstrap_servers)
    theirs = ("--topic", "shared", "--group", "mixed", "--from-beginning")
    ottla(kafka, "topics", "--create", "--topic", "shared", "--partitions", "2")
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in range(6)))
    write = ("produce", "shared", "--file", str(path))
    ottla(kafka, *write)
    first = ottla(kafka, "consume", "shared", "--group", "mixed", "--max-messages", "2")
    console_class = "kafka.tools.ConsoleConsumer"
    second = console(console_class, *bootstrap, *theirs, "--max-messages", "3")
    third = ottla(kafka, "consume", "shared", "--group", "mixed")
    assert (len(first), len(second), len(third)) == (2, 3, 1)
    assert sorted(first + second + third) == [f"{n}" for n in range(6)]

    with subprocess.Popen(
        [*java_command("kafka-2.8.2", console_class), *bootstrap, *theirs],
        stdout=subprocess.PIPE,
        text=True,
    ) as java:
        assert java.stdout is not None
        ottla(kafka, *write)
        # Once it reads it is a member; then ours takes one of the two partitions.
        got = [java.stdout.readline()]
        ottla(kafka, "topics", "--describe", "--topic", "shared")
        described = ottla(kafka, "groups", "--describe", "--group", "mixed", "--members")
        assert len(described) == 3, "a blank line, the header, one member"
        assert run_ottla(kafka, "consume", "shared", "--group", "mixed").code == 0
        path.write_text("last\n")
        for partition in ("0", "1"):
            ottla(kafka, *write, "--partition", partition)
        while got.count("last\n") < 2:
            got.append(java.stdout.readline())
        java.terminate()
    assert len(got) >= 3, "it has both partitions again"


def fill(kafka: ApacheKafka, folder: Path, topic: str) -> None:
    """Three partitions with 4, 3 and no records, of the times 1000, 2000…"""
    ottla(kafka, "topics", "--create", "--topic", topic, "--partitions", "3")
    path = folder / "records"
    records = [{"value": "v", "partition": n % 2, "timestamp": (n + 1) * 1000} for n in range(7)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    ottla(kafka, "produce", topic, "--file", str(path), "--format", "json")


def test_get_offsets_prints_the_lines_of_kafkas_tool(kafka: ApacheKafka, tmp_path: Path) -> None:
    """Of Kafka 4.1: 2.8's GetOffsetShell knows fewer flags."""
    need_jars("kafka-4.1")
    fill(kafka, tmp_path, "offsets-a")
    fill(kafka, tmp_path, "offsets-b")
    different = {}
    with ToolSession("kafka-4.1") as java:
        for line in (
            "--topic offsets-a",
            "--topic offsets-.* --time earliest",
            "--topic offsets-a,offsets-b --partitions 0,2 --time -1",
            "--topic offsets-a --time 2500",
            "--topic offsets-a --time 999000",
            "--topic-partitions offsets-a:1,offsets-b:0-2,offsets-.*:2- --time latest",
            "--topic-partitions offsets-b:-1",
            "--exclude-internal-topics --topic-partitions offsets-a",
            "--topic none",
            "--topic offsets-a --partitions 7",
            "--topic offsets-a --partitions x",
            "--topic offsets-a --topic-partitions offsets-a",
            "--topic offsets-a --time now",
        ):
            words = line.split()
            theirs = java.run(
                "org.apache.kafka.tools.GetOffsetShell",
                "--bootstrap-server", kafka.bootstrap_servers, *words,
            )  # fmt: skip
            ours = run_ottla(kafka, "get-offsets", *words)
            error = theirs.stderr.partition("\n")[0] if theirs.returncode else ""
            expected = Said(theirs.returncode, sorted(theirs.stdout.splitlines()), error)
            if ours._replace(lines=sorted(ours.lines)) != expected:
                different[line] = (expected, ours)
    assert different == {}
    old = run_ottla(kafka, "get-offsets", "--topic", "offsets-a", "--time", "max-timestamp")
    assert old.code == 1 and old.lines == []
    assert "does not support a version of ListOffsetsRequest" in old.error, "2.8 has no KIP-734"


def test_delete_records_prints_the_lines_of_kafkas_tool(kafka: ApacheKafka, tmp_path: Path) -> None:
    exception = re.compile(r"(?:[a-z]+\.)+[A-Z]\w+: ")

    def answers(who: str, value: object) -> Said:
        path = tmp_path / f"{who}.json"
        path.write_text(json.dumps(value).replace("@", who))
        if who == "by-ottla":
            said = run_ottla(kafka, "delete-records", "--offset-json-file", str(path))
        else:
            printed = java.run(
                "kafka.admin.DeleteRecordsCommand",
                "--bootstrap-server", kafka.bootstrap_servers, "--offset-json-file", str(path),
            )  # fmt: skip
            said = Said(printed.returncode, printed.stdout.splitlines(), printed.stderr)
        # The name of Java's exception is not shown here, and a failure of one is a failure.
        failed = bool(said.code) or any("error: " in line for line in said.lines)
        error = exception.sub("", said.error.removeprefix("Error: ").strip())
        return Said(
            int(failed),
            sorted(exception.sub("", line).replace(who, "@") for line in said.lines),
            error.removeprefix('Exception in thread "main" ').replace(who, "@"),
        )

    def entry(partition: int, offset: int, topic: str = "@") -> dict[str, object]:
        return {"topic": topic, "partition": partition, "offset": offset}

    different = []
    with ToolSession("kafka-2.8.2") as java:
        for who in ("by-java", "by-ottla"):
            fill(kafka, tmp_path, who)
        for value in (
            {"partitions": [entry(0, 2), entry(1, -1), entry(2, 0)], "version": 1},
            {"partitions": [entry(0, 1)]},
            {"partitions": [entry(0, 99)]},
            {"partitions": [entry(0, -2)]},
            {"partitions": []},
            {"partitions": [entry(0, 1), entry(0, 2)]},
            {"version": 2, "partitions": []},
            {"version": 1},
        ):
            theirs, ours = answers("by-java", value), answers("by-ottla", value)
            if theirs != ours:
                different.append((value, theirs, ours))
    assert different == []
    assert ottla(kafka, "get-offsets", "--topic", "by-ottla", "--time", "earliest") == [
        "by-ottla:0:2",
        "by-ottla:1:3",
        "by-ottla:2:0",
    ]


def test_znodes_are_those_of_zookeepers_own_tool(kafka: ApacheKafka) -> None:
    """Kafka's znodes on Apache ZooKeeper, with zkCli beside."""

    def zk_cli(*words: str) -> list[str]:
        host = kafka.zookeeper.partition("/")[0]
        main = "org.apache.zookeeper.ZooKeeperMain"
        printed = run_tool("zookeeper-3.8", main, "-server", host, *words)
        return printed.stdout.splitlines()

    def zk(*words: str) -> list[str]:
        place = ["--zookeeper", kafka.zookeeper.partition("/")[0]]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            assert cli_main.run(["zk", *words, *place]) == 0
        return out.getvalue().splitlines()

    broker = "/data/brokers/ids/0"
    ours, theirs = zk("get", "-s", broker), zk_cli("get", "-s", broker)
    # zkCli shows times in words of its own.
    for lines in (ours, theirs):
        lines[:] = [line for line in lines if not re.match("[cm]time = ", line)]
    assert ours == theirs[-len(ours) :] and len(ours) == 10
    listed = [path for path in zk_cli("ls", "-R", "/data/brokers") if path.count("/") > 2]
    assert sorted(zk("ls", "-R", "/data/brokers")) == sorted(listed) and broker in listed
    watched = zk("watch", "-R", "/data/brokers/ids", "--max-changes", "2")
    assert [line.split(" ", 4)[2:4] for line in watched] == [
        ["there", "/data/brokers/ids"],
        ["there", broker],
    ]
