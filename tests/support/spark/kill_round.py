"""One round: a stream of known records, three kinds of kills, and the judgement afterwards."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pyarrow.parquet
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import ProcessCluster
from tests.support.known_topics import await_known
from tests.support.spark.kill_driver import Settings
from tests.support.spark.kill_processes import FAILED_QUERY, LOST_TASK, REFUSED, WAIT_S, Driver
from tests.support.spark.pipeline_helpers import read_topic

SOURCE, TARGET = "numbers", "copied"
BROKERS = 3
PARTITIONS = 3
# At least: records come until the last kill is done, so that every kill meets work.
RECORDS = 8_000
# Not more than the stream can follow: the rest would be read to its end after the last kill.
RECORDS_PER_SECOND = 150
KEYS = 997
PADDING = 80
# The shortest session that the store grants: two of its ticks.
OVERRIDES = {"zookeeper.session.timeout.ms": "4000"}
KILLS = ("driver", "worker", "worker", "broker")
# With a checkpoint of the past put back in between.
KILLS_AND_CHECKPOINT = ("worker", "checkpoint", "driver")
# Lost connections are what the test is about: librdkafka need not print them.
QUIET = {"log_level": 2, "reconnect.backoff.max.ms": 500}


@dataclass(frozen=True)
class Load:
    """What is written, and how slowly the stream works on it."""

    records: int = RECORDS
    per_second: int = RECORDS_PER_SECOND
    padding: int = PADDING
    row_ms: float = 0.0
    transaction_timeout_ms: int = 300_000


LOAD = Load()
# Tasks of several seconds whose transactions may be open for three: more than one each.
SLOW = Load(records=1_500, per_second=60, padding=20_000, row_ms=20, transaction_timeout_ms=3_000)


@dataclass(frozen=True)
class Case:
    """Who is killed, and over what work."""

    name: str
    kills: Sequence[str] = KILLS
    load: Load = LOAD


PLAIN = Case("kills")
# The rounds of the campaign, again and again.
CASES = (
    PLAIN,
    Case("older checkpoint", KILLS_AND_CHECKPOINT),
    Case("slow rows", load=SLOW),
    PLAIN,
    PLAIN,
)


class Numbers:
    """An idempotent producer on a thread of its own: every number once, at a steady rate."""

    def __init__(self, servers: str, load: Load) -> None:
        self._load = load
        self.failures: Counter[str] = Counter()
        self.total = 0
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, **QUIET}
        )
        self._enough = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def finish(self) -> None:
        self._enough.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive() and self._producer.flush(WAIT_S) == 0
        assert self.failures == {}, self.failures

    def _run(self) -> None:
        pause_every = max(self._load.per_second // 6, 1)
        for number in count():
            if self._stop.is_set() or (number >= self._load.records and self._enough.is_set()):
                return
            self._producer.produce(
                SOURCE,
                (b"%d:" % number).ljust(self._load.padding, b"."),
                key=b"key-%d" % (number % KEYS),
                on_delivery=self._answered,
            )
            self.total = number + 1
            self._producer.poll(0.0)
            if number % pause_every == 0:
                self._stop.wait(pause_every / self._load.per_second)

    def _answered(self, error: object, _message: object) -> None:
        if error is not None:
            self.failures[str(error)] += 1


class Follower:
    """Counts what a reader of committed records sees, while it comes."""

    def __init__(self, servers: str) -> None:
        self.seen = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "follower",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 20,
                **QUIET,
            }
        )
        self._consumer.assign([TopicPartition(TARGET, index, 0) for index in range(PARTITIONS)])

    def await_records(self, count: int, driver: Driver) -> None:
        deadline = time.monotonic() + WAIT_S
        while self.seen < count:
            found = self._consumer.consume(500, timeout=0.05)
            self.seen += sum(message.error() is None for message in found)
            driver.check()
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.seen} of {count} records came\n{driver.tail()}")

    def close(self) -> None:
        self._consumer.close()


@dataclass(frozen=True)
class Kill:
    """Who dies, when so many records were seen in the target and a pause has passed."""

    who: str
    after_records: int
    pause_s: float


def schedule(
    choice: random.Random, kills: Sequence[str] = KILLS, records: int = RECORDS
) -> list[Kill]:
    """Half of the kills come at the very moment at which a transaction was seen to be committed:
    Spark has not yet noted the end of the micro-batch then."""
    order = list(kills)
    choice.shuffle(order)
    step = records // 80
    places = sorted(choice.sample(range(5 * step, int(records * 0.8), step), len(order)))
    pauses = [choice.choice([0.0, choice.uniform(0.0, 1.5)]) for _ in order]
    return [Kill(*kill) for kill in zip(order, places, pauses, strict=True)]


@dataclass
class Verdict:
    """How often each number was found, in one place."""

    missing: list[int]
    twice: list[int]
    strangers: list[int]

    @classmethod
    def of(cls, numbers: Iterable[int], total: int) -> Verdict:
        found = Counter(numbers)
        return cls(
            [number for number in range(total) if number not in found],
            sorted(number for number, times in found.items() if times > 1),
            sorted(set(found) - set(range(total))),
        )

    @property
    def is_exactly_once(self) -> bool:
        return not (self.missing or self.twice or self.strangers)

    @property
    def is_at_least_once(self) -> bool:
        return not (self.missing or self.strangers)

    def __str__(self) -> str:
        return f"{len(self.missing)} missing, {len(self.twice)} more than once" + (
            f", {len(self.strangers)} strangers" if self.strangers else ""
        )


@dataclass
class Round:
    """What happened, and what was found."""

    seed: int
    case: str = ""
    kills: list[str] = field(default_factory=list)
    lost_tasks: int = 0
    failed_queries: int = 0
    records: int = 0
    seconds: float = 0.0
    # Of the topic and of the archive; none where the round was not finished.
    verdicts: tuple[Verdict, ...] = ()
    trouble: str = "not judged"

    HEAD = (
        *("seed", "round", "kills, after records", "tasks lost", "queries lost"),
        *("records", "s", "found"),
    )

    @property
    def is_exactly_once(self) -> bool:
        return bool(self.verdicts) and all(v.is_exactly_once for v in self.verdicts)

    @property
    def is_at_least_once(self) -> bool:
        return bool(self.verdicts) and all(v.is_at_least_once for v in self.verdicts)

    @property
    def found(self) -> str:
        if not self.verdicts:
            return self.trouble
        if self.is_exactly_once:
            return "all once"
        return "topic: {}; archive: {}".format(*self.verdicts)

    def row(self) -> tuple[object, ...]:
        numbers = (self.lost_tasks, self.failed_queries, self.records, round(self.seconds))
        return (self.seed, self.case, ", ".join(self.kills), *numbers, self.found)


class Killer:
    """Carries out a schedule. A broker comes back after a while, sometimes only after the next."""

    def __init__(
        self, cluster: ProcessCluster, driver: Driver, follower: Follower, done: Round
    ) -> None:
        self._cluster = cluster
        self._driver = driver
        self._follower = follower
        self._done = done
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        self._down: int | None = None

    def run(self, choice: random.Random, kills: Sequence[str], records: int) -> None:
        self._driver.start(cores=2)
        for kill in schedule(choice, kills, records):
            self._follower.await_records(kill.after_records, self._driver)
            time.sleep(kill.pause_s)
            self._done.kills.append(f"{kill.who} {self._follower.seen}")
            print(f"  kill {self._done.kills[-1]}", flush=True)
            before = self._down
            self._kill(kill.who, choice)
            if before is not None:
                self._restart()
            elif self._down is not None and choice.random() < 0.6:
                # Before or after its session has ended.
                time.sleep(choice.uniform(0.0, 6.0))
                self._restart()
        if self._down is not None:
            self._restart()

    def _kill(self, who: str, choice: random.Random) -> None:
        if who == "driver":
            self._driver.kill()
            # Another number of cores is what a driver may find on another machine.
            self._driver.start(cores=choice.choice([2, 3]))
        elif who == "worker":
            self._driver.kill_workers(choice)
        elif who == "checkpoint":
            self._put_older_checkpoint_back()
        else:
            self._down = choice.randrange(BROKERS)
            self._cluster.kill(self._down)

    def _put_older_checkpoint_back(self) -> None:
        """The sink must refuse it; with the newest one the query goes on as if nothing had been."""
        now, older, newest = (
            self._driver.checkpoint.with_name(f"checkpoint-{name}")
            for name in ("copy", "older", "newest")
        )
        self._driver.kill()
        shutil.copytree(now, older)
        self._driver.start(cores=2)
        last = last_commit(older)
        self._driver.await_that(lambda: last_commit(now) >= last + 3, "no more micro-batches")
        self._driver.kill()
        now.rename(newest)
        older.rename(now)
        self._driver.start(cores=2)
        self._driver.await_that(lambda: self._driver.count(REFUSED) > 0, "nothing is refused")
        self._driver.kill()
        shutil.rmtree(now)
        newest.rename(now)
        self._driver.start(cores=2)

    def _restart(self) -> None:
        assert self._down is not None
        self._cluster.restart(self._down)
        self._down = None
        deadline = time.monotonic() + WAIT_S
        while not self._all_in_sync():
            assert time.monotonic() < deadline, "the replicas do not come together again"
            time.sleep(0.2)

    def _all_in_sync(self) -> bool:
        known = self._admin.list_topics(timeout=30).topics
        return all(
            len(partition.isrs) == BROKERS
            for topic in (SOURCE, TARGET)
            for partition in known[topic].partitions.values()
        )


def last_commit(checkpoint: Path) -> int:
    """The last micro-batch that Spark has noted as done."""
    names = [path.name for path in (checkpoint / "commits").glob("*")]
    return max((int(name) for name in names if name.isdecimal()), default=-1)


def numbers_in_topic(servers: str) -> list[int]:
    values = (message.value() or b"" for message in read_topic(servers, TARGET))
    return [int(value.partition(b":")[0]) for value in values]


def numbers_in_archive(folder: Path) -> list[int]:
    """Every Parquet file that is there, as any reader would find it."""
    found: list[int] = []
    for file in sorted(folder.rglob("*.parquet")):
        values = pyarrow.parquet.read_table(file, columns=["value"]).column("value")
        found += [int(value.partition(b":")[0]) for value in values.to_pylist()]
    return found


def run_round(
    seed: int,
    folder: Path,
    guarantee: str = "exactly_once",
    case: Case = PLAIN,
) -> Round:
    """The folder keeps logs, checkpoints and archive for those who ask why it failed."""
    folder.mkdir(parents=True)
    print(f"seed {seed}, {case.name}, {guarantee}, all files in {folder}", flush=True)
    done, load = Round(seed, case.name), case.load
    began = time.monotonic()
    with ProcessCluster(brokers=BROKERS, overrides=OVERRIDES, data=folder / "cluster") as cluster:
        servers = cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        config = {"min.insync.replicas": "2"}
        wanted = [NewTopic(name, PARTITIONS, BROKERS, config=config) for name in (SOURCE, TARGET)]
        for created in admin.create_topics(wanted).values():
            created.result(60)
        for name in (SOURCE, TARGET):
            await_known(servers, name, PARTITIONS)
        settings = Settings(
            *(servers, SOURCE, TARGET, str(folder)),
            guarantee=guarantee,
            row_ms=load.row_ms,
            transaction_timeout_ms=load.transaction_timeout_ms,
        )
        numbers = Numbers(servers, load)
        follower = Follower(servers)
        try:
            with Driver(settings) as driver:
                Killer(cluster, driver, follower, done).run(
                    random.Random(seed), case.kills, load.records
                )
                numbers.finish()
                driver.finish()
                done.lost_tasks = driver.count(LOST_TASK)
                done.failed_queries = driver.count(FAILED_QUERY)
        finally:
            numbers.stop()
            follower.close()
        in_topic = Verdict.of(numbers_in_topic(servers), numbers.total)
    in_archive = Verdict.of(numbers_in_archive(settings.archive), numbers.total)
    done.verdicts = (in_topic, in_archive)
    done.records = numbers.total
    done.seconds = time.monotonic() - began
    print(f"  {done.row()}", flush=True)
    return done
