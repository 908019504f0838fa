"""The page Placement: a replica is dragged to another broker and moves; a crawl is cancelled."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.console.browser import PHONE, accessibility_findings, sideways_overflow
from tests.support.console.records import fill_partition

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from ottla.testing.cluster import ProcessCluster

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def topic(cluster: ProcessCluster) -> str:
    """One partition with some data, in one place."""
    cluster.create_topic("placed", partitions=2, replication_factor=1)
    fill_partition(cluster.bootstrap_servers, "placed", 0, 4 * MIB)
    return "placed"


def row_of(page: Page, partition: str) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_text(partition, exact=True))


def mark_of(page: Page, partition: str) -> Locator:
    return row_of(page, partition).get_by_role("button").first


def drag(page: Page, partition: str) -> int:
    """Its only replica to the next broker; which one that is."""
    mark = mark_of(page, partition)
    expect(mark).to_be_visible()
    to = (int(mark.get_attribute("data-from") or 0) + 1) % 3
    mark.drag_to(row_of(page, partition).locator(f"[data-broker='{to}']"))
    return to


def run_with_throttle(page: Page, throttle: str) -> None:
    pending = page.get_by_role("region", name="Pending moves")
    pending.get_by_label("Throttle").fill(throttle)
    pending.get_by_role("button", name="Look at it and run").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("ottla reassign")
    expect(dialog).to_contain_text("--execute")
    expect(dialog).to_contain_text("4.2 MB will be copied")
    dialog.get_by_role("button", name="Move", exact=True).click()
    expect(dialog).to_be_hidden()


def throttles(page: Page, cluster: ProcessCluster) -> set[str]:
    from ottla.client.admin.types import ConfigResource
    from ottla.pipelines.topics import with_admin

    async def ask(admin):  # type: ignore[no-untyped-def]
        of = [ConfigResource.topic("placed"), *map(ConfigResource.broker, range(3))]
        return await admin.describe_configs(of)

    found = with_admin(cluster.bootstrap_servers, {}, ask)
    return {
        item.name
        for items in found.values()
        for item in items
        if "throttled" in item.name and item.value and item.source.name.startswith("DYNAMIC")
    }


def test_a_replica_is_dragged_and_moves(page: Page, cluster: ProcessCluster, topic: str) -> None:
    page.goto(f"/placement?topic={topic}")
    to = drag(page, "placed-0")
    expect(page.get_by_role("region", name="Pending moves")).to_contain_text(f"→ {to}")
    run_with_throttle(page, "50000000")
    expect(
        row_of(page, "placed-0").get_by_role("button", name=f"on broker {to}: leader")
    ).to_be_visible()
    expect(row_of(page, "placed-0").get_by_role("button")).to_have_count(1)
    expect(page.get_by_role("region", name="Moves under way")).to_be_hidden()
    expect(page.get_by_text("throttles are being removed")).to_be_hidden()
    assert throttles(page, cluster) == set()


def test_a_move_at_a_crawl_is_cancelled(page: Page, cluster: ProcessCluster, topic: str) -> None:
    page.goto(f"/placement?topic={topic}")
    mark = mark_of(page, "placed-0")
    expect(mark).to_be_visible()
    before = mark.get_attribute("data-from")
    drag(page, "placed-0")
    run_with_throttle(page, "1000")
    under_way = page.get_by_role("region", name="Moves under way")
    expect(under_way).to_contain_text("placed-0")
    expect(under_way.get_by_role("progressbar")).to_be_visible()
    expect(
        row_of(page, "placed-0").get_by_role("button", name=re.compile("being added"))
    ).to_be_visible()
    assert throttles(page, cluster)
    under_way.get_by_role("button", name="Cancel it").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("--cancel")
    dialog.get_by_role("button", name="Cancel the moves").click()
    expect(under_way).to_be_hidden()
    expect(row_of(page, "placed-0").get_by_role("button")).to_have_count(1)
    assert mark_of(page, "placed-0").get_attribute("data-from") == before
    expect(page.get_by_text("throttles are being removed")).to_be_hidden()
    assert throttles(page, cluster) == set()


def test_the_same_by_keyboard_and_nothing_is_done_before_it_is_confirmed(
    page: Page, topic: str
) -> None:
    page.goto(f"/placement?topic={topic}")
    mark = mark_of(page, "placed-1")
    mark.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("placed-1")
    dialog.get_by_role("button", name="Propose the move").press("Enter")
    pending = page.get_by_role("region", name="Pending moves")
    expect(pending).to_contain_text("placed-1")
    expect(
        row_of(page, "placed-1").get_by_role("button", name=re.compile("is to come"))
    ).to_be_visible()
    pending.get_by_role("button", name="Discard", exact=True).last.click()
    expect(pending).to_be_hidden()
    expect(row_of(page, "placed-1").get_by_role("button")).to_have_count(1)


def test_a_plan_drains_a_broker(page: Page, topic: str) -> None:
    page.goto(f"/placement?topic={topic}")
    mark = mark_of(page, "placed-1")
    expect(mark).to_be_visible()
    drained = mark.get_attribute("data-from")
    page.get_by_role("button", name="Generate a plan").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile(f"^Broker {drained}")).uncheck()
    dialog.get_by_role("button", name="Propose it").click()
    expect(page.get_by_role("region", name="Pending moves")).to_contain_text("placed-1")
    # A plan on no broker at all is refused at its place.
    page.get_by_role("button", name="Generate a plan").click()
    for box in dialog.get_by_label(re.compile("^Broker ")).all():
        box.uncheck()
    dialog.get_by_role("button", name="Propose it").click()
    expect(
        dialog.get_by_role("alert").filter(has_text="Choose at least one broker.")
    ).to_be_visible()


def test_filters_are_in_the_address(page: Page, topic: str) -> None:
    page.goto("/placement?only=wrong")
    expect(page.get_by_text("No partition is like that.")).to_be_visible()
    page.get_by_label("Only what is wrong").uncheck()
    page.get_by_label("Topic", exact=True).fill("placed")
    expect(page.get_by_text(re.compile("^2 (of|partitions)"))).to_be_visible()
    expect(page).to_have_url(re.compile(r"topic=placed$"))
    page.reload()
    expect(page.get_by_label("Topic", exact=True)).to_have_value("placed")


def test_it_can_be_read_on_a_phone_and_by_everybody(page: Page, topic: str) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/placement?topic=placed")  # other tests leave topics that stand before it
    expect(mark_of(page, "placed-0")).to_be_visible()
    assert sideways_overflow(page) == 0
    assert accessibility_findings(page) == []
