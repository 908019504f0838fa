"""Messages and Groups on Apache Kafka 4.1: the same pages, and groups of the new protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from ottla.testing.console import running_console
from ottla.testing.java import KraftKafka, missing_reason
from tests.support.console.browser import WIDE, Complaints
from tests.support.console.readers import reading, write
from tests.support.judges import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def test_on_apache_kafka(browser: Browser) -> None:
    need(missing_reason("kafka-4.1"))
    with KraftKafka() as kafka, running_console(kafka.bootstrap_servers) as console:
        write(kafka.bootstrap_servers, *({"topic": "clicks", "value": f"v{i}"} for i in range(60)))
        with browser.new_context(viewport=WIDE, base_url=console) as context:
            context.set_default_timeout(20_000)
            page = context.new_page()
            complaints = Complaints(page)
            _messages(page)
            _groups(page, kafka.bootstrap_servers)
            _life(page)
            assert complaints.lines == []


def _life(page: Page) -> None:
    page.goto("/life")
    expect(page.get_by_text("Only Ottla's controller can be looked into")).to_be_visible()


def _messages(page: Page) -> None:
    lines = page.locator("button.message-line")
    page.goto("/messages")
    page.get_by_role("link", name="clicks").click()
    expect(lines).to_have_count(50)
    expect(lines.first).to_contain_text("v59")
    page.get_by_role("button", name="Produce…").click()
    page.get_by_label("Value", exact=True).fill("from the console")
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.get_by_text("Written to partition 0 at offset 60.")).to_be_visible()
    expect(lines.first).to_contain_text("from the console")


def _groups(page: Page, bootstrap: str) -> None:
    lag = page.locator(".stat", has_text="Lag").locator("dd")
    state = page.locator(".stat", has_text="State").locator("dd")
    kind = page.locator(".stat", has_text="Type").locator("dd")
    for group, protocol, shown in (("old", "classic", "Classic"), ("new", "consumer", "Consumer")):
        options = {"client.id": f"{group}-1", "group.protocol": protocol}
        with reading(bootstrap, group, "clicks", **options) as reader:
            reader.read(61)
            page.goto("/groups")
            expect(page.get_by_role("row", name=group)).to_contain_text(shown)
            page.get_by_role("link", name=group).click()
            expect(kind).to_have_text(shown)
            expect(lag).to_have_text("0")
            members = page.get_by_label("Members")
            expect(members.get_by_text(f"{group}-1", exact=True)).to_be_visible()
            expect(members.get_by_text("clicks: 0")).to_be_visible()
        expect(state).to_have_text("Empty")
        page.get_by_role("button", name="Reset offsets…").click()
        page.get_by_role("button", name="Dry run").click()
        page.get_by_role("button", name="Reset", exact=True).click()
        expect(lag).to_have_text("61")
