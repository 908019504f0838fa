"""`make demo`: create -> produce -> Spark reads -> kill a broker -> still there.

Everything happens on this machine: three broker processes and a store in a temporary folder,
real clients, and nothing left behind. Exits with 1 if anything seen is not as promised.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from ottla.errors import OttlaError
from ottla.testing.cluster import ProcessCluster
from ottla.testing.spark import (
    CONNECTOR,
    missing_reason,
    read_topic,
    spark_session,
    spark_tally,
    stop_session,
)
from ottla.testing.tally import Tally, tally
from peers.fetch import FetchFailed, fetch

TOPIC = "clicks"
PARTITIONS = 6
RECORDS = 200_000
RECORD_BYTES = 100
SEND_TIMEOUT_S = 60.0
READ_TIMEOUT_S = 60.0
FAILOVER_TIMEOUT_S = 30.0

console = Console(highlight=False)


class DemoFailed(Exception):
    """Something was not as promised; the message is what the user sees."""


class Reader(Protocol):
    title: str

    def read(self, bootstrap_servers: str) -> Tally: ...


class SparkReader:
    """Reads the topic as a DataFrame through Spark's official connector."""

    title = 'Spark, spark.read.format("kafka")'

    def __init__(self, scratch: Path) -> None:
        self._log = scratch / "spark.log"
        settings = {
            "spark.local.dir": str(scratch / "spark"),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            "spark.ui.showConsoleProgress": "false",
        }
        with _stderr_to(self._log):
            self._session = spark_session("ottla-demo", settings)

    def read(self, bootstrap_servers: str) -> Tally:
        with _stderr_to(self._log):
            return spark_tally(read_topic(self._session, bootstrap_servers, TOPIC))

    def close(self) -> None:
        with _stderr_to(self._log):
            stop_session(self._session)


class ClientReader:
    """Reads the topic with librdkafka where Spark's connector cannot be had."""

    title = "confluent-kafka"

    def read(self, bootstrap_servers: str) -> Tally:
        consumer = Consumer({**client(bootstrap_servers), "group.id": "demo"})
        try:
            places = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
            end = sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
            for place in places:
                place.offset = OFFSET_BEGINNING
            consumer.assign(places)
            total = Tally(0, 0)
            deadline = time.monotonic() + READ_TIMEOUT_S
            while total.count < end and time.monotonic() < deadline:
                batch = consumer.consume(10_000, timeout=0.5)
                total += tally(
                    message.value() or b"" for message in batch if message.error() is None
                )
            return total
        finally:
            consumer.close()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Spark's JVM writes to the descriptor itself; its chatter goes to a file."""
    sys.stderr.flush()
    kept = os.dup(2)
    with path.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def client(bootstrap_servers: str) -> dict[str, str | int | float | bool]:
    """What all librdkafka clients share: a killed broker is no news here, so it is not logged."""
    critical = 2
    return {"bootstrap.servers": bootstrap_servers, "log_level": critical}


def value_of(number: int) -> bytes:
    return (b'{"click":%d,"page":"/p/%d"}' % (number, number % 997)).ljust(RECORD_BYTES)


def heading(number: int, text: str) -> None:
    console.print(f"\n[bold cyan]{number}[/] [bold]{text}[/]")


def note(text: str) -> None:
    console.print(f"  [dim]{text}[/]")


def good(text: str) -> None:
    console.print(f"  [green]✓[/] {text}")


def start_cluster(stack: ExitStack, scratch: Path) -> ProcessCluster:
    heading(1, "A cluster: three broker processes and a store, on free ports")
    began = time.monotonic()
    cluster = stack.enter_context(ProcessCluster(brokers=3, data=scratch / "data"))
    good(f"ready in {time.monotonic() - began:.1f} s")
    note(f"bootstrap.servers={cluster.bootstrap_servers}")
    note(f"zookeeper={cluster.zookeeper}")
    note("  ".join(f"broker {broker}: pid {cluster.pid(broker)}" for broker in range(3)))
    return cluster


def create_topic(cluster: ProcessCluster) -> None:
    heading(2, f"A topic: {PARTITIONS} partitions, each on three brokers")
    count = str(PARTITIONS)
    create = ("--create", "--topic", TOPIC, "--partitions", count, "--replication-factor", "3")
    ottla_topics(cluster, *create)
    ottla_topics(cluster, "--describe", "--topic", TOPIC)


def ottla_topics(cluster: ProcessCluster, *arguments: str) -> None:
    """Runs the real command line and shows what it prints."""
    console.print(f"  [bold]$[/] ottla topics {' '.join(arguments)}", soft_wrap=True)
    command = [sys.executable, "-m", "ottla", "topics", *arguments]
    command += ["--bootstrap-server", cluster.bootstrap_servers]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    for line in run.stdout.expandtabs(4).splitlines():
        console.print(f"  [dim]{line}[/]", soft_wrap=True)
    if run.returncode != 0:
        raise DemoFailed(f"ottla topics failed: {run.stderr.strip() or run.stdout.strip()}")


def produce(cluster: ProcessCluster) -> Tally:
    heading(3, f"{RECORDS:,} records of {RECORD_BYTES} bytes, acks=all, from confluent-kafka")
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            **client(cluster.bootstrap_servers),
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": RECORDS,
        }
    )
    began = time.monotonic()
    columns = (TextColumn("  sending"), BarColumn(), TextColumn("{task.completed:,.0f}"))
    quiet = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=RECORDS)
        for number in range(RECORDS):
            producer.produce(TOPIC, value_of(number), on_delivery=delivered)
            if number % 2_000 == 0:
                producer.poll(0)
                progress.update(task, completed=number - len(producer))
        left = producer.flush(SEND_TIMEOUT_S)
    if failures or left:
        raise DemoFailed(f"{left + len(failures)} records were not acknowledged: {failures[:1]}")
    seconds = time.monotonic() - began
    good(f"every record acknowledged by all in-sync replicas, {RECORDS / seconds:,.0f} records/s")
    sent = tally(map(value_of, range(RECORDS)))
    note(f"sent: count {sent.count:,}, checksum {sent.checksum}")
    return sent


def open_reader(stack: ExitStack, scratch: Path) -> Reader:
    heading(4, "Read it back")
    try:
        outcome = fetch(CONNECTOR)
    except FetchFailed as failure:
        outcome = f"failed: {failure}"
    reason = missing_reason()
    if reason is not None:
        console.print(f"  [yellow]Spark is left out:[/] {reason} [dim]({outcome})[/]")
        return ClientReader()
    began = time.monotonic()
    with console.status("  Spark starts"):
        reader = SparkReader(scratch)
    stack.callback(reader.close)
    note(f"Spark session up in {time.monotonic() - began:.1f} s")
    return reader


def read_back(reader: Reader, cluster: ProcessCluster, sent: Tally) -> None:
    began = time.monotonic()
    with console.status(f"  {reader.title} reads"):
        found = reader.read(cluster.bootstrap_servers)
    seconds = time.monotonic() - began
    note(f"read: count {found.count:,}, checksum {found.checksum}  ({seconds:.1f} s)")
    if found != sent:
        raise DemoFailed(f"{reader.title} read {found}, sent was {sent}")
    good(f"{reader.title}: count and checksum equal")


def kill_a_leader(cluster: ProcessCluster) -> None:
    admin = AdminClient(client(cluster.bootstrap_servers))
    before = leaders(admin)
    victim = before[0]
    heading(5, f"kill -9 of broker {victim}, which leads partition 0")
    note(f"pid {cluster.pid(victim)} gets no chance to say goodbye; its session must run out (6 s)")
    cluster.kill(victim)
    began = time.monotonic()
    with console.status("  the controller notices"):
        now = wait_for_leaders(admin, victim)
    good(f"new leaders after {time.monotonic() - began:.1f} s")
    table = Table("partition", "led by", "now led by", box=None, padding=(0, 3))
    for partition, leader in sorted(before.items()):
        moved = leader != now[partition]
        table.add_row(str(partition), str(leader), f"[bold]{now[partition]}[/]" if moved else "")
    console.print(table)


def leaders(admin: AdminClient) -> dict[int, int]:
    topic = admin.list_topics(TOPIC, timeout=30).topics[TOPIC]
    return {partition: state.leader for partition, state in topic.partitions.items()}


def wait_for_leaders(admin: AdminClient, victim: int) -> dict[int, int]:
    deadline = time.monotonic() + FAILOVER_TIMEOUT_S
    while True:
        now = leaders(admin)
        if len(now) == PARTITIONS and not {victim, -1} & set(now.values()):
            return now
        if time.monotonic() > deadline:
            raise DemoFailed(f"partitions without a live leader: {now}")
        time.sleep(0.1)


def run() -> None:
    began = time.monotonic()
    console.print("[bold]Ottla[/]: a topic is made, filled, read by Spark, and survives a kill -9")
    scratch = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    try:
        with ExitStack() as stack:
            cluster = start_cluster(stack, scratch)
            pids = [cluster.pid(broker) for broker in range(3)]
            create_topic(cluster)
            sent = produce(cluster)
            reader = open_reader(stack, scratch)
            read_back(reader, cluster, sent)
            kill_a_leader(cluster)
            heading(6, "Still there?")
            read_back(reader, cluster, sent)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    if left or scratch.exists():
        raise DemoFailed(f"left behind: pids {left}, folder {scratch}")
    good("all processes stopped, the data folder is gone")
    console.print(f"\n[bold green]Done[/] in {time.monotonic() - began:.0f} s")


def main() -> int:
    # `kill` and closing the terminal clean up as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        run()
    except (DemoFailed, OttlaError) as failure:
        console.print(f"[bold red]failed:[/] {failure}")
        return 1
    except KeyboardInterrupt:
        console.print("[yellow]stopped[/]; nothing is left running")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
