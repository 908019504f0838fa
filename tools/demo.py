"""`make demo`: a cluster, a pipeline on Spark, a topic that grows, a kill -9, and nothing lost.

Everything happens on this machine: three broker processes and a store in a temporary folder, files
that come in, `examples/clicks.yaml` on Spark, Parquet out. Exits with 1 if anything seen is not as
promised. `--keep` leaves the cluster up. The console shows all of it while it runs; at the end a
record of what happened to the topics is left, and a page that replays it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from ottla.client.admin.client import Admin
from ottla.console.life.watch import Record, take_record
from ottla.errors import OttlaError
from ottla.pipelines import load_pipeline
from ottla.pipelines.announcement import Announcer, announced
from ottla.pipelines.live import LiveView
from ottla.pipelines.runner import PipelineRun, StopSignal
from ottla.pipelines.sessions import stderr_to
from ottla.pipelines.spec_reader import override
from ottla.runtime import system_runtime
from ottla.spark.launch.session import missing_reason, session, stop_session
from ottla.testing.cluster import ProcessCluster
from ottla.testing.tally import Tally, tally

sys.path.insert(0, str(Path(__file__).parent))
from demo_page import Mark, page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[1] / "examples" / "clicks.yaml"
FILES = 30
LINES_PER_FILE = 4_000
BAD_EVERY = 5_000
GROW_AT, KILL_AT = 8, 15
GROWN_PARTITIONS = 9
FILE_EVERY_S = 1.0
FAILOVER_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 300.0
POLL_S = 0.25

console = Console(highlight=False)


class DemoFailed(Exception):
    """Something was not as promised; the message is what the user sees."""


@dataclass
class Produced:
    """What was put into the folder: the truth that everything is held against."""

    clicks: list[str] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    files: int = 0

    def write_file(self, folder: Path) -> None:
        first = self.files * LINES_PER_FILE
        lines = [self._line(number) for number in range(first, first + LINES_PER_FILE)]
        self.clicks += lines
        # Renamed into place: Spark must never see half a file.
        unfinished = folder.parent / "unfinished"
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.rename(folder / f"{self.files:04d}.txt")
        self.files += 1

    def _line(self, number: int) -> str:
        if number % BAD_EVERY == BAD_EVERY - 1:
            line = f"no click {number}"
            self.bad.append(line)
            return line
        click: dict[str, object] = {
            "user": f"u{number % 997}",
            "page": f"/p/{number}",
            "paid": max(number % 10 - 6, 0),
        }
        if click["paid"]:
            self.orders.append(json.dumps(click, separators=(",", ":")))
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return json.dumps({**click, "at": at}, separators=(",", ":"))


@dataclass
class Story:
    """What the page shows: rows per second of each job, and what happened meanwhile."""

    began_s: float
    began_ms: float
    speeds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)

    def note_speeds(self, run: PipelineRun) -> None:
        now_s = time.monotonic() - self.began_s
        for stream in run.streams:
            self.speeds.setdefault(stream.name, []).append((now_s, stream.rows_per_s))

    def mark(self, text: str) -> None:
        self.marks.append(Mark(time.monotonic() - self.began_s, text))


def heading(number: int, text: str) -> None:
    console.print(f"\n[bold cyan]{number}[/] [bold]{text}[/]")


def note(text: str) -> None:
    console.print(f"  [dim]{text}[/]", soft_wrap=True)


def good(text: str) -> None:
    console.print(f"  [green]✓[/] {text}", soft_wrap=True)


def start_cluster(scratch: Path) -> ProcessCluster:
    heading(1, "A cluster: three broker processes and a store, on free ports")
    began = time.monotonic()
    events = {"ottla.lifecycle.topic.enable": "true"}
    data = scratch / "data"
    cluster = ProcessCluster(brokers=3, data=data, overrides=events, console=has_console())
    cluster.start()
    good(f"ready in {time.monotonic() - began:.1f} s")
    if cluster.console is not None:
        good(f"the console, to watch it all: [bold]{cluster.console}[/]")
    note(f"bootstrap.servers={cluster.bootstrap_servers}")
    note(f"zookeeper={cluster.zookeeper}")
    note("  ".join(f"broker {broker}: pid {cluster.pid(broker)}" for broker in range(3)))
    return cluster


def has_console() -> bool:
    return all(find_spec(name) is not None for name in ("starlette", "uvicorn"))


def create_topics(cluster: ProcessCluster) -> None:
    heading(2, "Topics, each partition on three brokers")
    for name, partitions in (("clicks", 6), ("orders", 3)):
        create = ("--create", "--topic", name, "--partitions", str(partitions))
        ottla_topics(cluster, *create, "--replication-factor", "3")
    ottla_topics(cluster, "--describe", "--topic", "clicks")


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


def start_spark(stack: ExitStack, scratch: Path) -> SparkSession:
    heading(3, "Spark, in this process")
    began = time.monotonic()
    settings = {
        "spark.local.dir": str(scratch / "spark"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    with console.status("  Spark starts"), stderr_to(scratch / "spark.log"):
        spark = session("ottla-demo", master="local[2]", conf=settings)
    stack.callback(stop_session, spark)
    # PySpark has put a handler of its own there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    good(f"session up in {time.monotonic() - began:.1f} s, no jars, no Docker")
    return spark


def run_pipeline(
    cluster: ProcessCluster, spark: SparkSession, scratch: Path, story: Story
) -> Produced:
    heading(4, "examples/clicks.yaml: ingest -> transform -> archive, while files keep coming")
    home = scratch / "pipeline"
    (home / "in").mkdir(parents=True)
    shutil.copy(EXAMPLE, home / EXAMPLE.name)
    pipeline = override(
        load_pipeline(home / EXAMPLE.name),
        {"bootstrap_servers": cluster.bootstrap_servers},
        "demo",
    )
    produced = Produced()
    run = PipelineRun(pipeline, spark)
    ending = StopSignal()
    run.start()
    announcer = Announcer(run.pipeline, run.streams, run.batch_reports, spark)
    try:
        with announced(announcer), LiveView(console, system_runtime().clock) as view:
            drive(cluster, run, view, produced, story, home / "in")
        note("no more files: ingest ends first, the others read what it has written")
    except BaseException:
        ending.hurry.set()
        raise
    finally:
        run.stop(ending)
    story.note_speeds(run)
    report = run.finish()
    for line in report.lines():
        note(line)
    if not report.is_sound:
        raise DemoFailed("a job failed")
    return produced


def drive(
    cluster: ProcessCluster,
    run: PipelineRun,
    view: LiveView,
    produced: Produced,
    story: Story,
    folder: Path,
) -> None:
    """One file, and when all jobs have seen it, one a second; a growth and a kill in between; ends
    when all files are written and taken in."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    next_file_s = 0.0
    while produced.files < FILES or not all_read(run, produced):
        if not run.poll() or time.monotonic() > deadline:
            raise DemoFailed("; ".join(run.report().lines()))
        view.update(run.streams)
        story.note_speeds(run)
        is_warm = produced.files == 0 or all(s.progress.rows_in for s in run.streams)
        if is_warm and produced.files < FILES and time.monotonic() >= next_file_s:
            next_file_s = time.monotonic() + FILE_EVERY_S
            produced.write_file(folder)
            if produced.files == GROW_AT:
                grow(cluster, story)
            elif produced.files == KILL_AT:
                kill_a_leader(cluster, story)
        time.sleep(POLL_S)


def all_read(run: PipelineRun, produced: Produced) -> bool:
    return run.streams[0].progress.rows_in >= len(produced.clicks)


def grow(cluster: ProcessCluster, story: Story) -> None:
    heading(5, "The topic grows while the stream runs")
    ottla_topics(cluster, "--alter", "--topic", "clicks", "--partitions", str(GROWN_PARTITIONS))
    good(f"{GROWN_PARTITIONS} partitions; the stream finds them by itself")
    story.mark("grown")


def kill_a_leader(cluster: ProcessCluster, story: Story) -> None:
    # A broker that is killed is not news here, so librdkafka does not log it.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 2})
    before = leaders(admin)
    victim = before[0]
    heading(6, f"kill -9 of broker {victim}, which leads partition 0")
    note(f"pid {cluster.pid(victim)} gets no chance to say goodbye; its session must run out (6 s)")
    cluster.kill(victim)
    story.mark(f"kill -9 {victim}")
    began = time.monotonic()
    deadline = began + FAILOVER_TIMEOUT_S
    now = leaders(admin)
    while len(now) != len(before) or {victim, -1} & set(now.values()):
        if time.monotonic() > deadline:
            raise DemoFailed(f"partitions without a live leader: {now}")
        time.sleep(0.1)
        now = leaders(admin)
    story.mark("new leaders")
    good(f"new leaders after {time.monotonic() - began:.1f} s, and the stream goes on")
    table = Table("partition", "led by", "now led by", box=None, padding=(0, 3))
    for partition, leader in sorted(before.items()):
        moved = leader != now[partition]
        table.add_row(str(partition), str(leader), f"[bold]{now[partition]}[/]" if moved else "")
    console.print(table)


def leaders(admin: AdminClient) -> dict[int, int]:
    topic = admin.list_topics("clicks", timeout=30).topics["clicks"]
    return {partition: state.leader for partition, state in topic.partitions.items()}


def compare(cluster: ProcessCluster, spark: SparkSession, scratch: Path, sent: Produced) -> None:
    heading(7, "What is in Parquet against what was produced")
    archive = spark.read.parquet(str(scratch / "pipeline" / "archive"))
    bad = (
        spark.read.format("ottla")
        .option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", "clicks.bad")
        .load()
    )
    rows = (
        ("clicks", sent.clicks, archive.where("topic = 'clicks'")),
        ("orders", sent.orders, archive.where("topic = 'orders'")),
        ("clicks.bad", sent.bad, bad),
    )
    table = Table("topic", "produced", "found", "checksums", box=None, padding=(0, 3))
    wrong = []
    for topic, lines, frame in rows:
        wanted = tally(line.encode() for line in lines)
        one = frame.selectExpr(
            "count(*) n",
            "coalesce(sum(crc32(value)), 0) total",
            "count(distinct partition, offset) places",
        ).collect()[0]
        found = Tally(one["n"], one["total"])
        table.add_row(topic, f"{wanted.count:,}", f"{found.count:,}", f"{found.checksum}")
        if found != wanted or one["places"] != one["n"]:
            wrong.append(f"{topic}: produced {wanted}, found {found}")
    console.print(table)
    if wrong:
        raise DemoFailed("; ".join(wrong))
    good("equal: every line exactly once, counts and checksums")
    partitions = archive.where("topic = 'clicks'").select("partition").distinct().count()
    if partitions != GROWN_PARTITIONS:
        raise DemoFailed(f"records of {partitions} partitions, not of {GROWN_PARTITIONS}")
    good(f"records of all {partitions} partitions, also of those that came later")


def events_of(cluster: ProcessCluster) -> list[dict[str, Any]]:
    """What the controller did, as it told it."""
    command = [sys.executable, "-m", "ottla", "events", "--output", "json"]
    command += ["--bootstrap-server", cluster.bootstrap_servers]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if told.returncode != 0:
        raise DemoFailed(f"ottla events failed: {told.stderr.strip()}")
    return [json.loads(line) for line in told.stdout.splitlines()]


def save_page(story: Story, events: list[dict[str, Any]], path: Path) -> None:
    path.write_text(page(story.speeds, story.marks, events, story.began_ms))
    good(f"page:   {path} replays it: drag the slider")


def save_record(cluster: ProcessCluster, path: Path) -> None:
    """For the console's page Life of a topic, which plays it again."""

    async def take() -> Record:
        async with Admin.connect(system_runtime(), cluster.bootstrap_servers) as admin:
            return await take_record(admin, system_runtime().clock.now_ms())

    path.write_bytes(msgspec.json.encode(asyncio.run(take())))
    good(f"record: {path}; the console plays it at /life")


def run(keep: bool, plot: Path, record: Path) -> None:
    began = time.monotonic()
    console.print(
        "[bold]Ottla[/]: files -> topics -> Parquet on Spark; a topic grows, a broker dies"
    )
    reason = missing_reason()
    if reason is not None:
        raise DemoFailed(reason)
    scratch = Path(tempfile.mkdtemp(prefix="ottla-demo-"))
    story = Story(time.monotonic(), time.time() * 1000)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        cluster = start_cluster(scratch)
        pids = [cluster.pid(broker) for broker in range(3)]
        ending = stack.enter_context(ExitStack())
        ending.callback(cluster.stop)
        create_topics(cluster)
        spark = start_spark(stack, scratch)
        produced = run_pipeline(cluster, spark, scratch, story)
        compare(cluster, spark, scratch, produced)
        heading(8, "What is left")
        save_page(story, events_of(cluster), plot)
        save_record(cluster, record)
        if keep:
            ending.pop_all()
            stop_session(spark)
            keep_cluster(cluster)
            stack.pop_all()
            return
    left = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    if left or scratch.exists():
        raise DemoFailed(f"left behind: pids {left}, folder {scratch}")
    good("all processes stopped, the data folder is gone")
    console.print(f"\n[bold green]Done[/] in {time.monotonic() - began:.0f} s")


def keep_cluster(cluster: ProcessCluster) -> None:
    alive = [b for b in range(3) if Path(f"/proc/{cluster.pid(b)}").exists()]
    status = Path(f"/proc/{cluster.pid(alive[0])}/status").read_text()
    supervisor = status.partition("PPid:")[2].split()[0]
    addresses = cluster.bootstrap_servers.split(",")
    servers = ",".join(addresses[broker] for broker in alive)
    console.print(f"\nkept: bootstrap.servers={servers}", soft_wrap=True)
    console.print(f"kill {supervisor} ends it; its data stays in {cluster.options.data}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Ottla's demo.")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    parser.add_argument("--plot", type=Path, default=Path("ottla-demo.html"), help="the page")
    parser.add_argument("--record", type=Path, default=Path("ottla-life.json"))
    options = parser.parse_args()
    # `kill` and closing the terminal clean up as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        run(options.keep, options.plot.absolute(), options.record.absolute())
    except (DemoFailed, OttlaError) as failure:
        console.print(f"[bold red]failed:[/] {failure}")
        return 1
    except KeyboardInterrupt:
        console.print("[yellow]stopped[/]; nothing is left running")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
