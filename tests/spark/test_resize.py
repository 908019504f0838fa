"""A resize while a producer and a group of confluent-kafka run: every acknowledged record reaches
the group, each key's in order. `test_resize_campaign.py` has a hundred times as many, from Java."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import DataFrame, SparkSession

from ottla.cli.main import cli
from ottla.client.admin.groups import GroupAdmin
from ottla.pipelines import topics as calls
from ottla.pipelines.copy.copier import Check, Copier, CopyJob
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.resize import Resize, ResizeSpec, abort, begin
from ottla.runtime import SystemDisk
from ottla.spark.launch import session as sessions
from ottla.testing.java import KraftKafka
from ottla.topics.partitioners import Partitioner
from ottla.types import TopicPartition, format_topic_id
from tests.support.spark.copies import Writer, assert_copied, read_all
from tests.support.spark.judged import AnyCluster
from tests.support.spark.resize_traffic import Verdict
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


FIRST = 20_000


class Traffic:
    """A producer that sends `first` records as fast as it can, and then goes on calmly."""

    def __init__(self, servers: str, topic: str, *, pause_s: float = 0.01, first: int = 0) -> None:
        self._servers, self._topic, self._pause_s = servers, topic, pause_s
        self._first = first
        self.filled = threading.Event()
        self._stop = threading.Event()
        self._all_acked = threading.Event()
        self.acked: dict[bytes, list[int]] = {}
        self.seen: dict[bytes, list[int]] = {}

    def produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "topic.metadata.refresh.interval.ms": 500,
            }
        )

        def delivered(error: object, message: object) -> None:
            if error is None:
                self.acked.setdefault(message.key(), []).append(int(message.value()))  # type: ignore[attr-defined]

        number = 0
        while not self._stop.is_set():
            for _ in range(20):
                producer.produce(
                    self._topic, str(number), key=f"k{number % 50}", on_delivery=delivered
                )
                number += 1
            producer.poll(0)
            if number >= self._first:
                self.filled.set()
                self._stop.wait(self._pause_s)
        producer.flush(30)
        self._all_acked.set()

    def consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": f"{self._topic}-readers",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 500,
            }
        )
        consumer.subscribe([self._topic])
        while not self._all_acked.is_set() or not self.is_complete():
            for message in consumer.consume(500, timeout=0.2):
                key, value = message.key(), message.value()
                if message.error() is None and key is not None and value is not None:
                    self.seen.setdefault(key, []).append(int(value))
        consumer.close()

    def is_complete(self) -> bool:
        return all(set(v) <= set(self.seen.get(k, [])) for k, v in list(self.acked.items()))

    @contextmanager
    def running(self, *works: Callable[[], None]) -> Iterator[None]:
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(60)


def test_fewer_partitions_while_clients_run(
    spark: SparkSession, ottla_processes: AnyCluster, tmp_path: Path
) -> None:
    topics = Topics(ottla_processes.bootstrap_servers)
    name = topics.create(partitions=12)
    spec = ResizeSpec(Endpoint(topics.servers, name), 5, Partitioner.MURMUR2)
    traffic = Traffic(topics.servers, name, first=FIRST)
    with traffic.running(traffic.produce, traffic.consume):
        assert traffic.filled.wait(60)
        while sum(map(len, list(traffic.acked.values()))) < FIRST:
            time.sleep(0.01)
        begun = begin(spec)
        folder = CopyFolder(SystemDisk(), tmp_path / "resize")
        report = Resize(spark, spec, begun, folder).run()
    assert report.end.topic_id == begun.shadow_id
    assert len(report.copy.by_partition) == 5
    check = report.copy.check
    assert check is not None and check.is_sound and not check.foreign
    assert FIRST <= check.records <= report.copy.tally.records
    verdict = Verdict.of(traffic.acked, traffic.seen)
    assert (verdict.missing, verdict.disordered) == (0, 0)
    with pytest.raises(CopyError):
        abort(spec.source)


def test_a_copy_that_is_not_what_was_read_never_gets_the_name(
    spark: SparkSession,
    ottla_processes: AnyCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = Topics(ottla_processes.bootstrap_servers)
    name = topics.create(partitions=3)
    topics.fill(name, [b"%d" % number for number in range(300)])
    spec = ResizeSpec(Endpoint(topics.servers, name), 2, Partitioner.MURMUR2)
    begun = begin(spec)
    check = Copier.check

    def after_a_loss(copier: Copier, watch: Callable[[], None]) -> Check:
        shadow = TopicPartition(begun.shadow, 0)
        calls.with_admin(topics.servers, {}, lambda admin: admin.delete_records({shadow: 10}))
        return check(copier, watch)

    monkeypatch.setattr(Copier, "check", after_a_loss)
    resize = Resize(spark, spec, begun, CopyFolder(SystemDisk(), tmp_path / "resize"))
    with pytest.raises(CopyError, match=r"cannot be read back: offset 0 .* has aged out.*--abort"):
        resize.run()
    abort(spec.source)
    assert len(read_all(topics.servers, name)) == 3


def test_a_running_stream_goes_on_in_the_resized_topic(
    spark: SparkSession, ottla_processes: AnyCluster, tmp_path: Path
) -> None:
    topics = Topics(ottla_processes.bootstrap_servers)
    name = topics.create(partitions=4)
    traffic = Traffic(topics.servers, name, pause_s=0.1)
    lives: set[str] = set()

    def see(rows: DataFrame, _: int) -> None:
        for row in rows.select("key", "value").collect():
            traffic.seen.setdefault(bytes(row.key), []).append(int(row.value))

    stream = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", topics.servers)
        .option("subscribe", name)
        .option("startingOffsets", "earliest")
        .option("minRecordsPerPartition", "100000")
        .option("onTopicRecreated", "continue")
        .option("kafka.group.id", f"{name}-stream")
        .load()
        .writeStream.foreachBatch(see)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    spec = ResizeSpec(Endpoint(topics.servers, name), 2, Partitioner.MURMUR2)
    try:
        with traffic.running(traffic.produce):
            while not traffic.seen:
                assert stream.isActive, stream.exception()
                time.sleep(0.1)
            folder = CopyFolder(SystemDisk(), tmp_path / "resize")
            report = Resize(spark, spec, begin(spec), folder).run()
        deadline = time.monotonic() + 60
        while not traffic.is_complete() and time.monotonic() < deadline:
            assert stream.isActive, stream.exception()
            time.sleep(0.1)
        lives = {
            json.loads(source["endOffset"])[name]["id"]
            for progress in stream.recentProgress
            for source in progress["sources"]
        }
    finally:
        stream.stop()
    assert traffic.is_complete() and traffic.acked
    assert len(lives) == 2, "it has read both topics"
    assert [one.group for one in report.copy.groups or ()] == [f"{name}-stream"]
    # Read again: what the micro-batch under way had, and what the report says.
    again = sum(len(seen) - len(set(seen)) for seen in traffic.seen.values())
    print(f"{again} of {sum(map(len, traffic.acked.values()))} records were read again")


def test_on_apache_kafka_the_command_copies_into_another_name(
    spark: SparkSession, kraft: KraftKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = Topics(kraft.bootstrap_servers)
    name = topics.create(partitions=4)
    Writer(topics.servers, name).keyed(800, 4)
    reader = Consumer({"bootstrap.servers": topics.servers, "group.id": f"{name}-readers"})
    ends = {p: reader.get_watermark_offsets(Place(name, p))[1] for p in range(4)}
    read = {TopicPartition(name, p): end for p, end in ends.items()}
    # With patience: a broker's first group finds no coordinator for a while.
    calls.with_admin(
        topics.servers,
        {},
        lambda admin: GroupAdmin(admin.cluster).commit_offsets(f"{name}-readers", read),
    )

    def run(*words: str) -> tuple[int, str]:
        command = ["resize", name, "--bootstrap-server", topics.servers, *words]
        result = CliRunner().invoke(cli, [*command, "--checkpoints", str(tmp_path)])
        return result.exit_code, result.output or str(result.exception)

    code, text = run("--partitions", "3")
    assert code == 1 and "(--to NAME)" in text and "\n" not in text
    # The command's own session would be this process's one, and end it.
    monkeypatch.setattr(sessions, "session", lambda *_, **__: spark)
    monkeypatch.setattr(sessions, "stop_session", lambda _: None)
    wanted = f"{name}-3"
    code, text = run("--partitions", "3", "--to", wanted)
    assert code == 0, text
    assert f"No swap: {name} is copied into {wanted}" in text
    assert f"group {name}-readers: carried over exactly" in text
    assert f"Now let producers and consumers use {wanted}" in text
    copied = read_all(topics.servers, wanted)
    assert_copied(read_all(topics.servers, name), copied)
    after = reader.committed([Place(wanted, p) for p in range(3)])
    assert [place.offset for place in after] == [len(copied[p]) for p in range(3)]
    reader.close()


def test_a_copy_that_nobody_knows_of_is_not_gone_on_with(
    spark: SparkSession, ottla_processes: AnyCluster, tmp_path: Path
) -> None:
    """It would be there twice. One that was given up is no hindrance: its shadow was another one,
    whatever its name."""
    topics = Topics(ottla_processes.bootstrap_servers)
    name = topics.create(partitions=3)
    topics.fill(name, [b"%d" % number for number in range(300)])
    spec = ResizeSpec(Endpoint(topics.servers, name), 2, Partitioner.CONSISTENT_RANDOM)
    begun = begin(spec)
    known = CopyFolder(SystemDisk(), tmp_path / "known")
    shadow = Endpoint(topics.servers, begun.shadow)
    copier = Copier(spark, CopyJob(spec.source, shadow, spec.partitioner), known, by_hand=1000)
    copier.start()
    copier.finish(copier.source_ends())
    copier.close()
    state = known.state()
    assert state is not None and state.identity.target_id == format_topic_id(begun.shadow_id)
    with pytest.raises(CopyError, match=r"holds records of a copy that .* does not know of"):
        Resize(spark, spec, begin(spec), CopyFolder(SystemDisk(), tmp_path / "other")).run()
    abort(spec.source)
    topics.await_gone(begun.shadow)
    again = begin(spec)
    assert again.shadow_id != begun.shadow_id
    report = Resize(spark, spec, again, known).run()
    assert report.copy.tally.records == 300
    assert sum(report.copy.by_partition.values()) == 300
