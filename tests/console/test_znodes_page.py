"""The page Znodes: the store's tree in a browser, with nodes of every kind."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.metadata.store import Acl
from ottla.runtime import system_runtime
from ottla.testing.console import running_console
from ottla.zk.client.store import ZooKeeperClient
from tests.support.console.browser import PHONE, accessibility_findings, sideways_overflow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from ottla.testing.cluster import ProcessCluster

HOSTILE = '<img src=x onerror="alert(1)">'
CHILDREN = 450


@pytest.fixture(scope="module", autouse=True)
def planted(cluster: ProcessCluster) -> None:
    """Nodes that a page could stumble over."""

    async def plant() -> None:
        store = await ZooKeeperClient.connect(system_runtime(), cluster.zookeeper)
        await store.create("/planted")
        await store.create("/planted/bytes", bytes(range(256)) * 40)
        await store.create("/planted/large", b"x" * 1_000_000)
        await store.create("/planted/hostile", HOSTILE.encode())
        await store.create("/planted/closed", b"secret", acl=(Acl(31, "digest", "a:b"),))
        await store.create("/planted/many")
        for number in range(CHILDREN):
            await store.create(f"/planted/many/n{number:04d}")
        await store.create("/config/users/mallory")
        hashes = b'{"version":1,"config":{"SCRAM-SHA-256":"salt=s3cr3t","producer_byte_rate":"5"}}'
        await store.set("/config/users/mallory", hashes)
        await store.close()

    # Playwright's own loop runs in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, plant()).result()


def test_the_tree_is_walked_and_kept_in_the_address(page: Page) -> None:
    page.goto("/znodes")
    page.get_by_role("link", name="brokers", exact=True).click()
    page.get_by_role("link", name="ids", exact=True).click()
    page.get_by_role("link", name="0", exact=True).click()
    data = page.get_by_role("region", name="Data as json")
    expect(data).to_contain_text('"rack": "east"')
    expect(page.get_by_text("as long as the session 0x")).to_be_visible()
    assert page.url.endswith("?path=%2Fbrokers%2Fids%2F0")
    assert accessibility_findings(page) == []
    page.go_back()
    expect(page.get_by_role("link", name="2", exact=True)).to_be_visible()
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0


def test_bytes_large_values_and_markup_do_no_harm(page: Page) -> None:
    page.goto("/znodes?path=/planted/bytes")
    hexadecimal = page.get_by_role("region", name="Data as hex")
    expect(hexadecimal).to_contain_text("000010  10 11 12")
    expect(page.get_by_text("Only the beginning")).to_be_visible()
    page.goto("/znodes?path=/planted/large")
    expect(page.get_by_text("1 MB")).to_be_visible()
    expect(page.get_by_text("Only the beginning")).to_be_visible()
    page.goto("/znodes?path=/planted/hostile")
    expect(page.get_by_role("region", name="Data as text")).to_have_text(HOSTILE)
    page.goto("/znodes?path=/config/users/mallory")
    told = page.get_by_role("region", name="Data as json")
    expect(told).to_contain_text("producer_byte_rate")
    expect(told).not_to_contain_text("s3cr3t")


def test_many_children_come_in_pages(page: Page) -> None:
    page.goto("/znodes?path=/planted/many")
    expect(page.get_by_text("200 of 450 children")).to_be_visible()
    page.get_by_role("button", name="More").click()
    expect(page.get_by_text("400 of 450 children")).to_be_visible()
    page.get_by_label("Search children").fill("n044")
    expect(page.get_by_text("10 children")).to_be_visible()
    expect(page.get_by_role("link", name="n0449")).to_be_visible()


def test_what_may_not_be_read_and_what_is_not_there(page: Page) -> None:
    page.goto("/znodes?path=/planted/closed")
    expect(page.get_by_text("The store does not let this console read it.")).to_be_visible()
    page.goto("/znodes?path=/nowhere")
    expect(page.get_by_role("alert")).to_contain_text("There is no /nowhere.")
    page.goto("/znodes?path=/a//b")
    expect(page.get_by_role("alert")).to_contain_text("A path has names between its slashes.")


def test_without_a_store_the_page_says_how_to_name_one(
    browser: Browser, cluster: ProcessCluster
) -> None:
    with running_console(cluster.bootstrap_servers) as address:
        page = browser.new_page(base_url=address)
        page.goto("/znodes")
        expect(page.get_by_text("start it with --zookeeper HOST:PORT")).to_be_visible()
        page.close()
