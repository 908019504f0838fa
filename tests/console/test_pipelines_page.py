"""The page Pipelines: announcements as a running pipeline writes them, in a browser."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ottla.pipelines import load_pipeline
from ottla.pipelines.announcement import Announcer, announced
from ottla.testing.console import running_console
from tests.support.console.browser import (
    PHONE,
    accessibility_findings,
    sideways_overflow,
    watched_page,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from ottla.testing.cluster import ProcessCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "clicks.yaml"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def state() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def address(cluster: ProcessCluster, state: Path) -> Iterator[str]:
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_STATE_HOME", str(state))
    options = ("--pipeline", "127.0.0.1:1")
    with running_console(cluster.bootstrap_servers, *options) as address:
        patch.undo()
        yield address


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    with watched_page(browser, address, timeout_ms=30_000) as page:
        yield page


def test_none_runs_and_the_page_says_how_to_start_one(page: Page) -> None:
    page.goto("/pipelines")
    expect(page.get_by_text("ottla pipeline run examples/clicks.yaml")).to_be_visible()
    expect(page.get_by_text("127.0.0.1:1: cannot be reached")).to_be_visible()
    assert accessibility_findings(page) == []
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0


def test_one_appears_by_itself_with_its_graph_and_goes_again(page: Page, state: Path) -> None:
    page.goto("/pipelines")
    told: dict[str, Any] = {}

    class Told(Announcer):
        def __call__(self) -> bytes:
            said = json.loads(super().__call__())
            said["jobs"][1] |= told
            said["spark_ui"] = "http://127.0.0.1:4040"
            return json.dumps(said).encode()

    announcer = Told(load_pipeline(EXAMPLE).named(), [], [], None)
    with announced(announcer, {"XDG_STATE_HOME": str(state)}, every_s=0.2):
        job = page.get_by_role("row").filter(has_text="transform-orders")
        expect(job).to_contain_text("waiting")
        graph = page.get_by_role("region", name="Graph of clicks")
        expect(graph.get_by_role("link", name="Topic clicks.bad")).to_be_visible()
        told |= {
            "state": "running",
            "rows_in": 12345,
            "rows_per_s": 678,
            "lag": 9,
            "dead_letters": 3,
        }
        expect(job).to_contain_text("12,345")
        expect(graph).to_contain_text("678 rows/s, lag 9")
        link = page.get_by_role("link", name="Spark's own pages")
        expect(link).to_have_attribute("href", "http://127.0.0.1:4040")
        told |= {"state": "failed", "error": HOSTILE}
        expect(job).to_contain_text(HOSTILE)
        assert accessibility_findings(page) == []
        page.set_viewport_size(PHONE)
        assert sideways_overflow(page) == 0
    expect(page.get_by_text("No pipeline runs on this machine")).to_be_visible()
    assert list((state / "ottla" / "pipelines").iterdir()) == []


def test_a_pipeline_that_was_killed_is_not_shown(page: Page, state: Path) -> None:
    folder = state / "ottla" / "pipelines"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    child = os.spawnlp(os.P_NOWAIT, "true", "true")
    os.waitpid(child, 0)
    left = json.loads(Announcer(load_pipeline(EXAMPLE).named(), [], [], None)())
    (folder / f"{child}.json").write_text(json.dumps(left | {"pid": child}))
    page.goto("/pipelines")
    expect(page.get_by_text("No pipeline runs on this machine")).to_be_visible()
