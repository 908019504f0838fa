"""The page Cluster: a broker is killed, the failover is seen, and all is well again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from tests.support.console.browser import (
    PHONE,
    accessibility_findings,
    sideways_overflow,
    watched_page,
)
from tests.support.console.records import fill_partition

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """A cluster of its own: brokers of it are killed."""
    data: Path = tmp_path_factory.mktemp("mortal") / "data"
    settings = {"zookeeper.session.timeout.ms": 3000}
    with ProcessCluster(3, data=data, racks=["east", "west", "west"], overrides=settings) as found:
        found.create_topic("orders", partitions=6, replication_factor=3)
        found.create_topic("lonely", partitions=3, replication_factor=1)
        yield found


@pytest.fixture(scope="module")
def mortal_console(mortal: ProcessCluster) -> Iterator[str]:
    with running_console(mortal.bootstrap_servers) as address:
        yield address


@pytest.fixture
def page(browser: Browser, mortal_console: str) -> Iterator[Page]:
    with watched_page(browser, mortal_console, timeout_ms=30_000) as page:
        yield page


def test_all_is_well_and_bytes_are_seen(page: Page, mortal: ProcessCluster) -> None:
    page.goto("/")
    expect(page.get_by_text(re.compile("^All is well: 3 brokers, 9 partitions"))).to_be_visible()
    west = page.get_by_role("region", name="Rack west")
    expect(west.get_by_role("article")).to_have_count(2)
    expect(page.get_by_text(re.compile(r"^Controller: broker \d, epoch 1$"))).to_be_visible()
    bytes_in = page.locator(".stat", has_text="Bytes in").locator("dd")
    expect(bytes_in).to_have_text("0 B/s")
    fill_partition(mortal.bootstrap_servers, "orders", 0, 8 * 1024 * 1024)
    expect(bytes_in).to_have_text(re.compile("[1-9].* [kM]B/s"))
    assert accessibility_findings(page) == []
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0


def test_a_broker_is_killed_and_comes_back(page: Page, mortal: ProcessCluster) -> None:
    page.goto("/")
    expect(page.get_by_text("All is well")).to_be_visible()
    controller = page.get_by_text(re.compile("^Controller: broker"))
    was = re.search(r"broker (\d), epoch 1", controller.inner_text())
    assert was is not None
    killed = int(was[1])
    mortal.kill(killed)
    wrong = page.get_by_role("region", name="What is wrong")
    expect(wrong.get_by_text(f"Broker {killed} is down: 7 replicas")).to_be_visible()
    expect(wrong.get_by_text(f"broker {killed} had the last in-sync copy")).to_be_visible()
    expect(wrong.get_by_text(f"broker-{killed}.properties")).to_be_visible()
    expect(page.get_by_role("article", name=f"Broker {killed}")).to_contain_text("down")
    # The failover: another broker is the controller, in the next epoch, and leads.
    expect(page.get_by_text(re.compile(r"^Controller: broker \d, epoch 2$"))).to_be_visible()
    without = page.locator(".stat", has_text="Without a leader").locator("dd")
    expect(without).to_have_text("1")
    assert accessibility_findings(page) == []
    wrong.get_by_role("link", name="Show them").first.click()
    expect(page.get_by_role("button", name=re.compile("offline")).first).to_be_visible()
    page.go_back()
    mortal.start_broker(killed)
    expect(page.get_by_text(re.compile("^All is well: 3 brokers"))).to_be_visible()
    expect(without).to_have_text("0")
