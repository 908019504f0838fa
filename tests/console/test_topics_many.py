"""5,000 topics of ten partitions on a real cluster: first paint, scrolling, memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.client.admin.types import NewTopic, raise_first_error
from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from tests.support.console.administration import administer
from tests.support.console.browser import WIDE
from tests.support.console.scrolling import scroll_to_the_end

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from ottla.client.admin.client import Admin

_TOPICS = 5_000
_AT_ONCE = 250
# Of opening the list anew, after the first time; a picture that is old is asked for meanwhile.
_TURNS = 8


async def _make_topics(admin: Admin) -> None:
    for begin in range(0, _TOPICS, _AT_ONCE):
        some = [NewTopic(f"topic-{i:05}", 10, 1) for i in range(begin, begin + _AT_ONCE)]
        raise_first_error(await admin.create_topics(some))


def _resident_kb(bootstrap: str) -> int:
    """Of the one console that looks at this cluster."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"console" in words and bootstrap.encode() in words:
                lines = (folder / "status").read_text().splitlines()
                return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])
        except OSError:
            continue  # it has ended meanwhile
    raise AssertionError("there is no console")


def _open_list(page: Page) -> None:
    page.goto("/topics")
    expect(page.get_by_role("link", name="topic-00000")).to_be_visible()


@pytest.mark.campaign
@pytest.mark.timeout(1800)
def test_50_000_partitions(campaign: None, browser: Browser, tmp_path: Path) -> None:
    with ProcessCluster(brokers=3, data=tmp_path / "data") as cluster:
        administer(cluster.bootstrap_servers, _make_topics)
        with (
            running_console(cluster.bootstrap_servers) as address,
            browser.new_context(viewport=WIDE, base_url=address) as context,
        ):
            page = context.new_page()
            _open_list(page)
            painted_ms = page.evaluate(
                "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
            )
            scrolled = scroll_to_the_end(page)
            before_kb = _resident_kb(cluster.bootstrap_servers)
            for _ in range(_TURNS):
                page.wait_for_timeout(4_000)
                _open_list(page)
            after_kb = _resident_kb(cluster.bootstrap_servers)
            print(
                f"first paint {painted_ms:.0f} ms; {scrolled}; {before_kb} kB, then {after_kb} kB"
            )
            assert painted_ms < 1_500
            assert scrolled.cpu_ms_per_frame < 50
            assert after_kb < before_kb * 1.2
