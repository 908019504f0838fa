"""Copies of topics and `ottla clone`, judged by what confluent-kafka reads with the isolation level
that consumers have by default: read_uncommitted."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from pyspark.sql import SparkSession

from ottla.cli.main import cli
from ottla.pipelines.copy import tasks
from ottla.pipelines.copy.clone import Clone, CloneSpec, plan
from ottla.pipelines.copy.clone_report import CloneReport
from ottla.pipelines.copy.copier import Copier, CopyJob
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.parts import Ends, RangePart, RangeResult
from ottla.pipelines.copy.range_copy import AheadOfUs, RangeCopy
from ottla.pipelines.copy.state import BadState
from ottla.runtime import SystemDisk
from ottla.spark.kafka import kept_client
from ottla.testing.java import KraftKafka
from ottla.topics.partitioners import Partitioner
from tests.support.spark.copies import FIRST_TIME_MS, Writer, assert_copied, read_all, total
from tests.support.spark.judged import AnyCluster
from tests.support.spark.topics import Topics

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

WAIT_S, SLOW_S = 60, 60


@pytest.fixture(scope="module")
def topics(ottla_processes: AnyCluster) -> Topics:
    return Topics(ottla_processes.bootstrap_servers)


@pytest.fixture(scope="module")
def mixed(topics: Topics) -> str:
    """5 partitions with keys, no keys, tombstones, headers, codecs and transactions."""
    name = topics.create(partitions=5, max_message_bytes="900000", segment_bytes="1000000")
    writer = Writer(topics.servers, name)
    writer.keyed(1500, 5)
    writer.keyed(500, 5, codec="zstd")
    writer.transactions(5)
    writer.keyed(200, 5)
    topics.delete_records(name, 2, 30)
    return name


@pytest.fixture
def folder(tmp_path: Path) -> CopyFolder:
    return CopyFolder(SystemDisk(), tmp_path / "checkpoint")


def new_name(topics: Topics) -> str:
    return f"copy-{random.Random().randrange(1 << 40)}"


def clone(spark: SparkSession, spec: CloneSpec, folder: CopyFolder) -> CloneReport:
    return Clone(spark, spec, plan(spec, folder), folder).run()


def spec_of(topics: Topics, source: str, target: str) -> CloneSpec:
    return CloneSpec(Endpoint(topics.servers, source), Endpoint(topics.servers, target))


@pytest.fixture
def groups(topics: Topics, mixed: str) -> Iterator[dict[str, str]]:
    """One that has read all, one in the middle, one with a member."""
    names = {kind: f"{kind}-{mixed}" for kind in ("done", "slow", "busy")}
    consumers = {
        kind: Consumer({"bootstrap.servers": topics.servers, "group.id": name})
        for kind, name in names.items()
    }
    ends = {p: consumers["done"].get_watermark_offsets(Place(mixed, p))[1] for p in range(5)}
    for kind, share in (("done", 1.0), ("slow", 0.5), ("busy", 0.5)):
        places = [Place(mixed, p, int(end * share)) for p, end in ends.items()]
        consumers[kind].commit(offsets=places, asynchronous=False)
    joined = threading.Event()
    consumers["busy"].subscribe([mixed], on_assign=lambda *_: joined.set())
    while not joined.is_set():
        consumers["busy"].poll(0.1)
    yield names
    for consumer in consumers.values():
        consumer.close()


def test_a_clone_in_another_shape(
    spark: SparkSession, topics: Topics, mixed: str, folder: CopyFolder, groups: dict[str, str]
) -> None:
    target = new_name(topics)
    spec = spec_of(topics, mixed, target)
    spec = CloneSpec(spec.source, spec.target, partitions=3, with_groups=True)
    report = clone(spark, spec, folder)
    source = read_all(topics.servers, mixed, "read_committed")
    copied = read_all(topics.servers, target)
    assert_copied(source, copied)
    assert report.tally.records == total(source) and report.is_sound
    assert report.check is not None and report.check.records == total(source)
    assert report.by_partition == {p: len(records) for p, records in copied.items()}
    keys = {r.key for records in source.values() for r in records if r.key is not None}
    assert abs(report.keys - len(keys)) <= 2
    assert report.tally.misplaced == 0
    configs = own_configs(topics, target)
    assert configs == own_configs(topics, mixed), "as the source's, when all is there"
    outcomes = {one.group: one for one in report.groups or ()}
    assert outcomes[groups["done"]].again == 0 and outcomes[groups["done"]].trouble is None
    assert "has members" in (outcomes[groups["busy"]].trouble or "")
    assert_nothing_is_skipped(topics, mixed, target, groups["slow"], outcomes[groups["slow"]].again)
    assert folder.state() is None, "there is nothing to go on with"
    assert "each pair in order" in "\n".join(report.lines())
    json.dumps(report.to_json())


def own_configs(topics: Topics, name: str) -> dict[str, str]:
    from ottla.pipelines import topics as calls
    from ottla.pipelines.copy import clone_topics

    facts = calls.with_admin(topics.servers, {}, lambda admin: clone_topics.look(admin, name))
    assert facts is not None
    return facts.configs


def assert_nothing_is_skipped(
    topics: Topics, source: str, target: str, group: str, again: int
) -> None:
    """What the group reads from its places in the target is what it has not read, and no more than
    was told."""
    consumer = Consumer(
        {
            "bootstrap.servers": topics.servers,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    before = {
        p.partition: p.offset for p in consumer.committed([Place(source, p) for p in range(5)])
    }
    after = {
        p.partition: p.offset for p in consumer.committed([Place(target, p) for p in range(3)])
    }
    unread: set[int] = set()
    consumer.assign([Place(source, p, 0) for p in range(5)])
    expected = total(read_all(topics.servers, source, "read_committed"))
    read: set[int] = set()
    for _ in range(expected):
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        at, partition = message.offset(), message.partition()
        assert at is not None and partition is not None
        (read if at < before[partition] else unread).add(message.timestamp()[1])
    consumer.close()
    copied = read_all(topics.servers, target)
    seen = {r.time_ms for p, records in copied.items() for r in records[after[p] :]}
    assert unread <= seen, "records are skipped"
    assert 0 < len(seen & read) <= again


def test_without_a_number_of_partitions_every_record_stays_where_it_is(
    spark: SparkSession, topics: Topics, folder: CopyFolder
) -> None:
    """Also where a program chose the partition; the times of the broker become the record's."""
    name = topics.create(partitions=3, message_timestamp_type="LogAppendTime")
    Writer(topics.servers, name).keyed(60, 2)
    target = new_name(topics)
    report = clone(spark, spec_of(topics, name, target), folder)
    assert read_all(topics.servers, target) == read_all(topics.servers, name)
    assert report.partitioner == "" and report.is_sound
    assert own_configs(topics, target) == own_configs(topics, name)


def test_a_part_by_time_and_an_empty_topic(
    spark: SparkSession, topics: Topics, mixed: str, folder: CopyFolder
) -> None:
    spec = spec_of(topics, mixed, new_name(topics))
    first, last = FIRST_TIME_MS + 300, FIRST_TIME_MS + 900
    part = CloneSpec(spec.source, spec.target, partitions=4, from_ms=first, to_ms=last)
    report = clone(spark, part, folder)
    copied = read_all(topics.servers, part.target.topic)
    times = {r.time_ms for records in copied.values() for r in records}
    source = read_all(topics.servers, mixed, "read_committed")
    there = {r.time_ms for records in source.values() for r in records}
    assert times == {time for time in there if first <= time < last}
    assert report.tally.records == len(times)
    empty = topics.create(partitions=2)
    report = clone(spark, spec_of(topics, empty, new_name(topics)), folder)
    assert report.tally.records == 0 and report.is_sound


class Cut(Exception):
    """The end of a run, in the middle of it."""


@pytest.mark.parametrize("where", ["after it was made", "before the first checkpoint"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_clone_that_was_cut_short_before_its_first_checkpoint_gets_its_configs(
    spark: SparkSession,
    topics: Topics,
    folder: CopyFolder,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    is_there: bool,
) -> None:
    """Those of the source, or its own where it was there before."""
    name = topics.create(partitions=2, cleanup_policy="compact", max_message_bytes="900000")
    topics.fill(name, [b"%d" % number for number in range(20)])
    target = topics.create(partitions=2, segment_ms="77000") if is_there else new_name(topics)
    wanted = own_configs(topics, target if is_there else name)

    def cut(*_: object, **__: object) -> None:
        raise Cut

    if where == "after it was made":
        monkeypatch.setattr("ottla.pipelines.topics.await_led", cut)
    else:
        monkeypatch.setattr(Copier, "start", cut)
    spec = spec_of(topics, name, target)
    for _ in range(2):
        with pytest.raises(Cut):
            clone(spark, spec, folder)
    monkeypatch.undo()
    report = clone(spark, spec, folder)
    assert report.is_sound and report.tally.records == 20
    assert own_configs(topics, target) == wanted


class Dying(SystemDisk):
    """After so many files that it has removed, when that is said."""

    removals: int | None = None

    def remove(self, path: Path) -> None:
        if self.removals is not None:
            if not self.removals:
                raise Cut
            self.removals -= 1
        super().remove(path)


@pytest.mark.parametrize("removals", [0, 1, 2])
def test_a_clone_that_was_cut_short_at_its_very_end_keeps_its_configs(
    spark: SparkSession,
    topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    removals: int,
) -> None:
    """While its checkpoint is removed, file by file."""
    name = topics.create(partitions=1, cleanup_policy="compact", max_message_bytes="900000")
    topics.fill(name, [b"%d" % number for number in range(20)])
    disk = Dying()
    folder = CopyFolder(disk, tmp_path / "checkpoint")
    spec = spec_of(topics, name, new_name(topics))
    give = Clone._give_configs

    def give_and_die(self: Clone, known: frozenset[str]) -> list[str]:
        disk.removals = removals
        return give(self, known)

    monkeypatch.setattr(Clone, "_give_configs", give_and_die)
    with pytest.raises(Cut):
        clone(spark, spec, folder)
    monkeypatch.undo()
    disk.removals = None
    if removals < 2:
        assert clone(spark, spec, folder).is_sound
    else:
        with pytest.raises(CopyError, match="is finished, with 20 records"):
            plan(spec, folder)
    assert own_configs(topics, spec.target.topic) == own_configs(topics, name)


def test_times_ago_are_those_of_the_first_run(
    spark: SparkSession, topics: Topics, folder: CopyFolder
) -> None:
    """The same command goes on, though two hours ago is later by then."""
    name = topics.create(partitions=1)
    Writer(topics.servers, name).keyed(100, 1)
    first, last = FIRST_TIME_MS + 20, FIRST_TIME_MS + 70
    spec = replace(
        spec_of(topics, name, new_name(topics)),
        from_ms=first,
        to_ms=last,
        starting="2h",
        ending="1h",
    )
    stopped = Clone(spark, spec, plan(spec, folder), folder)
    stopped.stop()
    with pytest.raises(CopyError, match="the same command goes on from there"):
        stopped.run()
    later = replace(spec, from_ms=first + 10, to_ms=last + 10)
    report = clone(spark, later, folder)
    (records,) = read_all(topics.servers, spec.target.topic).values()
    assert [record.time_ms for record in records] == list(range(first, last))
    assert report.tally.records == last - first and report.is_sound


def test_batches_fit_the_segments_of_the_target(
    spark: SparkSession, topics: Topics, folder: CopyFolder
) -> None:
    name = topics.create(partitions=1, segment_bytes="100000")
    values = [b"%04d" % number * 250 for number in range(1_000)]
    topics.fill(name, values, partition=0, **{"batch.size": 50_000})
    target = new_name(topics)
    report = clone(spark, spec_of(topics, name, target), folder)
    assert report.is_sound and report.tally.records == 1_000
    assert read_all(topics.servers, target) == read_all(topics.servers, name)


def test_a_job_that_is_watched_ends_when_that_is_said(spark: SparkSession) -> None:
    """As that of a check does when a clone is stopped."""
    began, own = threading.Event(), spark.newSession()

    def work() -> None:
        began.set()
        own.range(1).mapInArrow(_slowly, "id long").collect()

    def watch() -> None:
        if began.wait(WAIT_S) and time.monotonic() > since + 2:
            raise Cut

    since = time.monotonic()
    with pytest.raises(Cut):
        tasks.run_watched(own, work, watch)
    assert time.monotonic() < since + SLOW_S


def _slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(SLOW_S)
    yield from batches


def copier(
    spark: SparkSession, topics: Topics, source: str, target: str, folder: CopyFolder
) -> Copier:
    job = CopyJob(
        Endpoint(topics.servers, source), Endpoint(topics.servers, target), Partitioner.MURMUR2
    )
    own = CopyFolder(SystemDisk(), folder.path)
    return Copier(spark, job, own, first_batch=3_000, retry_pause_s=0.01)


def test_goes_on_after_it_was_cut_short_in_a_micro_batch(
    spark: SparkSession, topics: Topics, folder: CopyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job fails when some of its tasks have written all, some a part and some nothing; then the
    driver is gone; then records come and the copy goes on to their end, not beyond."""
    name = topics.create(partitions=4)
    writer = Writer(topics.servers, name)
    writer.keyed(8000, 4)
    target = topics.create(partitions=7)
    cut = CutShort()
    monkeypatch.setattr(tasks, "run_ranges", cut.run)
    first = copier(spark, topics, name, target, folder)
    first.start()
    assert first.wait(120), "it ends when its attempts are over"
    with pytest.raises(CopyError, match="cut short"):
        first.finish({})
    first.close()
    there = read_all(topics.servers, target)
    # The third has found what the second wrote; five without a record more.
    assert cut.attempts == 7 and 0 < total(there) < 8000
    monkeypatch.undo()
    second = copier(spark, topics, name, target, folder)
    second.start()
    assert second.resumed
    writer.keyed(500, 4)
    ends = second.source_ends()
    state = second.finish(ends)
    assert state.positions == ends
    assert second.progress().lag == 0 and second.progress().records == 8500
    assert second.check().is_sound
    second.close()
    assert_copied(read_all(topics.servers, name), read_all(topics.servers, target))


class CutShort:
    """In place of the job: one range is copied whole, the others in part or not at all; from the
    third attempt on, none."""

    def __init__(self) -> None:
        self.attempts = 0
        self._run = tasks.run_ranges

    def run(
        self, spark: SparkSession, ends: Ends, groups: list[list[RangePart]]
    ) -> list[RangeResult]:
        self.attempts += 1
        parts = [part for group in groups for part in group]
        pieces = []
        for number, part in enumerate(parts[: self.attempts]):
            end = part.source.end
            if number:
                end = part.source.start + (end - part.source.start) * self.attempts // 6
            pieces.append([part._replace(source=replace(part.source, end=end))])
        if self.attempts <= 2:
            self._run(spark, ends, pieces)
        raise RuntimeError("the job was cut short")


def test_an_attempt_that_was_thought_dead_writes_nothing_twice(
    spark: SparkSession, topics: Topics, folder: CopyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topics.create(partitions=1)
    Writer(topics.servers, name).keyed(600, 1)
    target = topics.create(partitions=2)
    caught: list[tuple[Ends, RangePart]] = []

    def catch(_: SparkSession, ends: Ends, groups: list[list[RangePart]]) -> list[RangeResult]:
        caught.append((ends, groups[0][0]))
        raise RuntimeError("not now")

    monkeypatch.setattr(tasks, "run_ranges", catch)
    waiting = copier(spark, topics, name, target, folder)
    waiting.start()
    waiting.wait(60)
    waiting.close()
    monkeypatch.undo()
    ends, whole = caught[0]
    part = whole._replace(source=replace(whole.source, end=400))
    with kept_client(ends.read.connect) as reading, kept_client(ends.write) as writing:
        RangeCopy(reading, writing, ends, part).run()
        with pytest.raises(AheadOfUs, match="another attempt has written here"):
            RangeCopy(reading, writing, ends, whole).run()
        # The very same batches are no news to their leaders.
        RangeCopy(reading, writing, ends, part).run()
    there = read_all(topics.servers, target)
    assert total(there) == 400
    second = copier(spark, topics, name, target, folder)
    second.start()
    second.finish(second.source_ends())
    assert second.check().is_sound
    second.close()
    assert_copied(read_all(topics.servers, name), read_all(topics.servers, target))


def test_an_attempt_that_met_another_with_other_records_is_refused(
    spark: SparkSession, topics: Topics, folder: CopyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that was thought dead has read records that age out meanwhile. The next attempt has
    its sequence numbers for others, and their leader takes the one batch for the other."""
    name, target = topics.create(partitions=1), topics.create(partitions=1)
    topics.fill(name, [b"%03d" % number for number in range(150)], partition=0)
    attempts = 0

    def interleaved(
        _: SparkSession, ends: Ends, groups: list[list[RangePart]]
    ) -> list[RangeResult]:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RuntimeError("a task failed")
        whole = groups[0][0]
        stray = whole._replace(source=replace(whole.source, end=100))
        ours = whole._replace(source=replace(whole.source, start=50))
        with kept_client(ends.read.connect) as reading, kept_client(ends.write) as writing:
            RangeCopy(reading, writing, ends, stray).run()
            topics.delete_records(name, 0, 50)
            return [RangeCopy(reading, writing, ends, ours).run()]

    monkeypatch.setattr(tasks, "run_ranges", interleaved)
    one = copier(spark, topics, name, target, folder)
    one.start()
    with pytest.raises(CopyError, match=f"{target}-0 does not hold what was copied from {name}-0"):
        one.finish(one.source_ends())
    one.close()
    assert attempts == 2 and total(read_all(topics.servers, target)) == 100
    assert folder.state() is None, "nobody goes on with it"


def test_records_of_others_in_the_target_are_told_apart(
    spark: SparkSession, topics: Topics, folder: CopyFolder
) -> None:
    name, target = topics.create(partitions=2), topics.create(partitions=1)
    Writer(topics.servers, name).keyed(100, 2)
    one = copier(spark, topics, name, target, folder)
    one.start()
    topics.fill(target, [b"a", b"b", b"c"])
    one.finish(one.source_ends())
    found = one.check()
    one.close()
    assert found.is_sound and (found.records, found.foreign) == (100, 3)


def test_what_cannot_be_is_refused(
    spark: SparkSession, topics: Topics, mixed: str, folder: CopyFolder
) -> None:
    def refused(spec: CloneSpec, why: str) -> None:
        with pytest.raises(CopyError, match=why):
            plan(spec, folder)

    full, empty = topics.create(partitions=5), topics.create(partitions=2)
    topics.fill(full, [b"x"])
    refused(spec_of(topics, mixed, full), "exists and holds records")
    refused(spec_of(topics, mixed, empty), "exists with 2 partitions, not 5")
    refused(spec_of(topics, mixed, mixed), "is the topic itself")
    refused(spec_of(topics, "nowhere", "x"), "there is no topic nowhere")
    refused(spec_of(topics, "__consumer_offsets", "x"), "is an internal topic")
    refused(spec_of(topics, mixed, "__consumer_offsets"), "brokers keep for themselves")
    wide = spec_of(topics, mixed, "x")
    refused(CloneSpec(wide.source, wide.target, replication_factor=99), "cannot be made: .*99")
    by_crc = topics.create(partitions=3)
    topics.fill(by_crc, [b"k%d" % n for n in range(60)], partitioner="consistent")
    moved = spec_of(topics, by_crc, "x")
    refused(CloneSpec(moved.source, moved.target, partitions=2), "lie where crc32 puts them")
    plan(CloneSpec(moved.source, moved.target, 2, partitioner=Partitioner.MURMUR2), folder)
    assert plan(CloneSpec(moved.source, moved.target), folder).partitioner is None


def test_a_checkpoint_of_another_copy_is_refused(
    spark: SparkSession, topics: Topics, folder: CopyFolder
) -> None:
    name, target, other = (topics.create(partitions=1) for _ in range(3))
    first = copier(spark, topics, name, target, folder)
    first.start()
    first.finish(first.source_ends())
    first.close()
    second = copier(spark, topics, name, other, folder)
    with pytest.raises(BadState, match="is the checkpoint of another copy: it has target topic"):
        second.start()
    second.close()
    third = copier(spark, topics, name, target, folder)
    third.start()
    third.abort()
    third.close()
    assert folder.state() is None


def test_the_command(topics: Topics, mixed: str, tmp_path: Path) -> None:
    """Without Spark: what it says before it begins."""

    def run(*words: str) -> tuple[int, str]:
        command = ["clone", *words, "--bootstrap-server", topics.servers]
        result = CliRunner().invoke(cli, [*command, "--checkpoints", str(tmp_path)])
        text = result.output or str(result.exception)
        return result.exit_code, text

    code, text = run(mixed, "planned", "--partitions", "3", "--with-groups", "--dry-run")
    assert code == 0 and "topic planned is made: 3 partitions, 1 replica" in text
    assert "  max.message.bytes=900000" in text and "5 partitions -> 3: keys by murmur2" in text
    code, text = run("nowhere", "x")
    assert code == 1 and "there is no topic nowhere" in text
    assert run(mixed, "x", "--from", "yesterday")[0] == 1
    assert not list(tmp_path.rglob("*.json")), "nothing was done"


def test_to_apache_kafka_and_back(
    spark: SparkSession, topics: Topics, mixed: str, folder: CopyFolder, kraft: KraftKafka
) -> None:
    there, back = new_name(topics), new_name(topics)
    over = CloneSpec(
        Endpoint(topics.servers, mixed), Endpoint(kraft.bootstrap_servers, there), partitions=7
    )
    report = clone(spark, over, folder)
    assert report.is_sound
    assert report.left_out == ["segment.bytes=1000000"], "4.1 takes no less than 1 MiB"
    assert_copied(
        read_all(topics.servers, mixed, "read_committed"), read_all(kraft.bootstrap_servers, there)
    )
    home = CloneSpec(Endpoint(kraft.bootstrap_servers, there), Endpoint(topics.servers, back))
    report = clone(spark, home, folder)
    assert report.is_sound
    assert read_all(topics.servers, back) == read_all(kraft.bootstrap_servers, there)
