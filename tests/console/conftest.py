"""One browser, one cluster of three in two racks, one console for all files of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from ottla.testing.peers import find_browser
from tests.support.console.browser import launch, watched_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


# Of a file and not of the session: Playwright keeps an event loop running in this thread, and an
# asynchronous test that came next could not begin its own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=30_000)  # a machine under load is slow, not wrong
    executable = find_browser()
    if executable is None:
        pytest.skip("no chromium on PATH: `make peers` installs Debian's where it may")
    with sync_playwright() as playwright:
        browser = launch(playwright, executable)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    data = tmp_path_factory.mktemp("console") / "data"
    with ProcessCluster(brokers=3, data=data, racks=["east", "west", "west"]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def console(cluster: ProcessCluster) -> Iterator[str]:
    """Its address."""
    with running_console(cluster.bootstrap_servers, "--zookeeper", cluster.zookeeper) as address:
        yield address


@pytest.fixture
def page(browser: Browser, console: str) -> Iterator[Page]:
    """An empty page whose addresses begin at the console; the test fails if the browser complains
    about the page's scripts or policy."""
    with watched_page(browser, console) as page:
        yield page
