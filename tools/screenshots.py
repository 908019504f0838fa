"""Pictures of every page of the console, for docs/console: light and dark, on a screen and a phone.

    python tools/screenshots.py [--only cluster,topics] [--out docs/console]

A cluster of three in two racks is made, with topics, records, groups and a broker that is down in
the last pictures; everything is shown by the real console in a real browser. `make screenshots`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer
from playwright.sync_api import sync_playwright

from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from ottla.testing.peers import BROWSER_FLAGS, find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OUT = Path(__file__).parents[1] / "docs" / "console"
SIZES = {"wide": {"width": 1280, "height": 800}, "phone": {"width": 390, "height": 844}}
THEMES = ("light", "dark")
SETTLE_MS = 1_500


@dataclass(frozen=True)
class Shot:
    """`wait` is text that has to be there; `keys` are pressed before the picture."""

    name: str
    path: str
    wait: str = ""
    settle_ms: int = SETTLE_MS


WELL = (
    Shot("cluster", "/", "All is well", 12_000),
    Shot("topics", "/topics", "clicks"),
    Shot("topic", "/topics/clicks", "Partitions"),
    Shot("topic-configs", "/topics/clicks?tab=configs", "retention.ms"),
    Shot("deleted-topics", "/deleted-topics", "invoices"),
    Shot("create-topic", "/create-topic", "Partitions"),
    Shot("placement", "/placement?topic=clicks", "clicks-0"),
    Shot("life", "/life", "OnlinePartition", 4_000),
    Shot("life-topic", "/life/clicks", "clicks", 4_000),
    Shot("messages", "/messages/clicks", "user"),
    Shot("groups", "/groups", "billing"),
    Shot("group", "/groups/billing", "clicks", 4_000),
    Shot("pipelines", "/pipelines"),
    Shot("znodes", "/znodes", "brokers"),
    Shot("rights", "/rights"),
)
BROKEN = (Shot("cluster-broker-down", "/", "down", 3_000),)


@contextmanager
def load_on(cluster: ProcessCluster) -> Iterator[None]:
    """Somebody writes, now more and now less: the lines of the pictures have something to show."""
    done = threading.Event()

    def write() -> None:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
        turn = 0
        while not done.wait(0.2):
            turn += 1
            for number in range(30 + 25 * (turn % 9)):
                click = {"user": f"user-{number % 97}", "page": f"/p/{turn}/{number}", "paid": 0}
                producer.produce("clicks", json.dumps(click), key=f"user-{number % 97}")
            producer.poll(0)
        producer.flush(5)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def fill(cluster: ProcessCluster) -> None:
    def ottla(*words: str) -> None:
        where = ("--bootstrap-server", cluster.bootstrap_servers)
        subprocess.run([sys.executable, "-m", "ottla", *words, *where], check=True)

    for name, partitions in (("clicks", 6), ("orders", 3), ("payments", 12), ("audit-log", 1)):
        ottla("topics", "--create", "--topic", name, "--partitions", str(partitions),
              "--replication-factor", "3" if partitions < 12 else "2")  # fmt: skip
    ottla("configs", "--alter", "--entity-type", "topics", "--entity-name", "clicks",
          "--add-config", "retention.ms=86400000")  # fmt: skip
    for name in ("invoices", "clicks-2025"):
        ottla("topics", "--create", "--topic", name, "--partitions", "3",
              "--config", "ottla.delete.retention.ms=604800000")  # fmt: skip
        ottla("topics", "--delete", "--topic", name, "--wait")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    for number in range(20_000):
        click = {"user": f"user-{number % 97}", "page": f"/p/{number}", "paid": number % 7}
        producer.produce("clicks", json.dumps(click), key=f"user-{number % 97}")
        if number % 5 == 0:
            producer.produce("orders", json.dumps(click), key=f"order-{number}")
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()


def read_some(cluster: ProcessCluster) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["clicks"])
    taken = 0
    while taken < 12_000:
        taken += len(consumer.consume(500, timeout=5))
    consumer.commit(asynchronous=False)
    return consumer


def take(browser: Browser, address: str, shots: tuple[Shot, ...], out: Path) -> None:
    for theme in THEMES:
        for size, viewport in SIZES.items():
            with browser.new_context(viewport=viewport, color_scheme=theme) as context:
                for shot in shots:
                    picture(context.new_page(), address, shot, out / f"{shot.name}-{size}-{theme}")


def picture(page: Page, address: str, shot: Shot, target: Path) -> None:
    page.goto(address + shot.path)
    try:
        if shot.wait:
            page.get_by_text(shot.wait).first.wait_for(timeout=15_000, state="attached")
        page.wait_for_timeout(shot.settle_ms)
    finally:
        page.screenshot(path=target.with_suffix(".png"))
        page.close()
    print(f"{target.name}.png", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of pictures, with commas between them")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    executable = find_browser()
    if executable is None:
        print("no chromium on PATH: `make peers` installs Debian's where it may", file=sys.stderr)
        return 1
    wanted = set(filter(None, options.only.split(",")))
    options.out.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="ottla-screenshots-"))
    cluster = ProcessCluster(brokers=3, data=scratch / "data", racks=["east", "west", "west"])
    try:
        with (
            cluster,
            running_console(cluster.bootstrap_servers, "--zookeeper", cluster.zookeeper) as address,
            sync_playwright() as playwright,
        ):
            fill(cluster)
            consumer = read_some(cluster)
            browser = playwright.chromium.launch(
                executable_path=executable, args=list(BROWSER_FLAGS)
            )
            with load_on(cluster):
                take(browser, address, _chosen(WELL, wanted), options.out)
            consumer.close()
            if _chosen(BROKEN, wanted):
                cluster.kill(2)
                time.sleep(8)  # its session in the store runs out
                take(browser, address, _chosen(BROKEN, wanted), options.out)
            browser.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


def _chosen(shots: tuple[Shot, ...], wanted: set[str]) -> tuple[Shot, ...]:
    return tuple(shot for shot in shots if not wanted or shot.name in wanted)


if __name__ == "__main__":
    sys.exit(main())
