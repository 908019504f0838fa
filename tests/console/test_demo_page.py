"""The page that `make demo` leaves, in a browser: it draws, replays, and asks nobody."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.support.console.browser import Complaints, accessibility_findings

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
from demo_page import Mark
from demo_page import page as demo_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

BEGAN_MS = 1_000_000


def event(at_s: float, leader: int, isr: list[int]) -> dict[str, object]:
    online = {"event": "ElectLeader", "topic": "clicks", "partition": 0, "to": "OnlinePartition"}
    return {
        **online,
        "ts_ms": BEGAN_MS + at_s * 1000,
        "leader": leader,
        "isr": isr,
        "replicas": [0, 1, 2],
    }


def test_the_slider_goes_back_to_the_old_leader(browser: Browser, tmp_path: Path) -> None:
    speeds = {"ingest": [(0.0, 10.0), (10.0, 4000.0)], "archive": [(0.0, 0.0), (10.0, 900.0)]}
    events = [event(1, 0, [0, 1, 2]), event(8, 1, [1, 2])]
    file = tmp_path / "demo.html"
    file.write_text(demo_page(speeds, [Mark(7.0, "kill -9 0")], events, BEGAN_MS))
    view = browser.new_page()
    complaints = Complaints(view)
    asked: list[str] = []
    view.on("request", lambda request: asked.append(request.url))
    view.goto(file.as_uri())
    row = view.get_by_role("row").filter(has_text="0, 1, 2")
    expect(row).to_contain_text("1, 2")
    expect(view.get_by_text("kill -9 0")).to_be_visible()
    assert view.locator("polyline").count() == 2
    slider = view.get_by_label("Moment in seconds")
    slider.fill("5")
    expect(row.get_by_role("cell").nth(1)).to_have_text("0")
    slider.fill("0.5")
    expect(view.get_by_text("No topic yet.")).to_be_visible()
    view.get_by_role("button", name="Play").click()
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    assert accessibility_findings(view) == []
    assert complaints.lines == [] and asked == [file.as_uri()]
    view.close()
