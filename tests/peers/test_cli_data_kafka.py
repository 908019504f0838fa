"""`ottla produce` and `consume` on Apache Kafka 2.8.2, with Kafka's console tools beside them."""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli import main as cli_main
from ottla.testing.java import ApacheKafka, ApacheZooKeeper, java_command
from tests.support.peers.java_tools import need_jars

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def kafka(apache_zookeeper: ApacheZooKeeper) -> Iterator[ApacheKafka]:
    need_jars("kafka-2.8.2")
    with ApacheKafka(f"{apache_zookeeper.address}/data", brokers=1) as kafka:
        yield kafka


def ottla(kafka: ApacheKafka, command: str, *arguments: str) -> list[str]:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw)
    err = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        place = ["--bootstrap-server", kafka.bootstrap_servers]
        code = cli_main.run([command, *place, *arguments])
    out.flush()
    assert code == 0, err.getvalue()
    return raw.getvalue().decode().splitlines()


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
