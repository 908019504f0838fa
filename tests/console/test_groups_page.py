"""Groups: who reads what, how far behind, with real consumers that move while the page is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient
from playwright.sync_api import expect

from tests.support.console.browser import PHONE, accessibility_findings, sideways_overflow
from tests.support.console.readers import reading, write

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from ottla.testing.cluster import ProcessCluster

EVIL = "<b>g</b>/../\u202ex y"


def stat(page: Page, name: str) -> Locator:
    return page.locator(".stat", has_text=name).locator("dd")


def test_lag_follows_a_consumer_and_offsets_are_reset(page: Page, cluster: ProcessCluster) -> None:
    topic, group = "groups-read", "groups-billing"
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic(topic, partitions=1)
    write(bootstrap, *({"topic": topic, "value": f"{i}"} for i in range(100)))
    with reading(bootstrap, group, topic, **{"client.id": "billing-1"}) as reader:
        reader.read(40)
        page.goto("/groups")
        row = page.get_by_role("row", name=group)
        expect(row).to_contain_text("Stable")
        expect(row.locator("td").nth(2)).to_have_text("60")
        page.get_by_role("link", name=group).click()
        expect(stat(page, "Lag")).to_have_text("60")
        expect(page.get_by_label("Members").get_by_text("billing-1", exact=True)).to_be_visible()
        reader.read(25)
        expect(stat(page, "Lag")).to_have_text("35")
        page.get_by_role("button", name="Reset offsets…").click()
        page.get_by_role("button", name="Dry run").click()
        expect(page.get_by_text("the current state is Stable. Stop its consumers")).to_be_visible()
        page.get_by_role("button", name="Cancel").click()
    expect(stat(page, "State")).to_have_text("Empty")
    expect(page.get_by_text("Nobody reads: the group has no members")).to_be_visible()
    assert page.locator(".lag-chart path[d^=M]").count() > 3
    page.get_by_role("button", name="Reset offsets…").click()
    page.get_by_label("Go to").select_option("shift-by")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("Give a whole number.")).to_be_visible()
    page.get_by_label("Number").fill("-1000")
    page.get_by_role("button", name="Dry run").click()
    plan = page.get_by_role("table", name="Before and after").locator("tbody tr")
    expect(plan.locator("td")).to_have_text([topic, "0", "65", "0", "100"])
    expect(page.get_by_text("Value will be set to 0")).to_be_visible()
    expect(page.get_by_text(f"--topic {topic} --shift-by -1000 --dry-run")).to_be_visible()
    expect(stat(page, "Lag")).to_have_text("35")
    page.get_by_role("button", name="Reset", exact=True).click()
    expect(page.get_by_text("Offsets of 1 partition are reset.")).to_be_visible()
    expect(stat(page, "Lag")).to_have_text("100")
    assert accessibility_findings(page) == []
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_text(f"--delete --group {group}")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    expect(page.get_by_role("link", name=group)).to_have_count(0)


def test_names_of_groups_are_text(page: Page, cluster: ProcessCluster) -> None:
    topic = "groups-names"
    bootstrap = cluster.bootstrap_servers
    cluster.create_topic(topic, partitions=1)
    write(bootstrap, {"topic": topic, "value": "v"})
    for group in (EVIL, ".."):
        with reading(bootstrap, group, topic, **{"client.id": EVIL}) as reader:
            reader.read(1)
    page.goto("/groups")
    page.get_by_role("link", name="<b>g</b>/../⟨U+202E⟩x y").click()
    expect(stat(page, "State")).to_have_text("Empty")
    page.get_by_role("button", name="Delete offsets…").click()
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text(f"--delete-offsets --group '{EVIL}'")).to_be_visible()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("The offsets are deleted.")).to_be_visible()
    page.goto("/groups")
    page.get_by_role("link", name="..", exact=True).click()
    expect(stat(page, "State")).to_have_text("Empty")
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0
    assert accessibility_findings(page) == []


def test_looking_leaves_no_group_behind(page: Page, cluster: ProcessCluster) -> None:
    topic = "groups-untouched"
    cluster.create_topic(topic, partitions=1)
    write(cluster.bootstrap_servers, {"topic": topic, "value": "v"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    before = {group.group_id for group in admin.list_consumer_groups().result().valid}
    page.goto(f"/messages/{topic}")
    expect(page.locator("button.message-line")).to_have_count(1)
    page.goto(f"/messages/{topic}?follow=true")
    expect(page.get_by_text("Waiting for new records…")).to_be_visible()
    after = {group.group_id for group in admin.list_consumer_groups().result().valid}
    assert after <= before


def test_a_group_that_is_not_there(page: Page) -> None:
    page.goto("/groups/nobody")
    expect(page.get_by_text("There is no such group, or it has gone.")).to_be_visible()
