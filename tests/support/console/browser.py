"""A real Chromium, driven by Playwright, and what is held against every page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

from ottla.testing.peers import BROWSER_FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, ViewportSize

WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
_SERIOUS = ("serious", "critical")


def launch(playwright: Playwright, executable: str) -> Browser:
    return playwright.chromium.launch(executable_path=executable, args=list(BROWSER_FLAGS))


class Complaints:
    """What the browser complained about: errors of scripts, violations of the policy."""

    def __init__(self, page: Page) -> None:
        self.lines: list[str] = []
        page.on("pageerror", lambda error: self.lines.append(f"error: {error}"))
        page.on("console", self._note)

    def _note(self, message: Any) -> None:
        # What a request was answered is the page's to show; the browser logs it as well.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.lines.append(f"console: {message.text}")


@contextmanager
def watched_page(browser: Browser, address: str, *, timeout_ms: float = 20_000) -> Iterator[Page]:
    """An empty page whose addresses begin at the console; fails at its end if the browser has
    complained about the page's scripts or policy."""
    with browser.new_context(viewport=WIDE, base_url=address) as context:
        context.set_default_timeout(timeout_ms)
        page = context.new_page()
        complaints = Complaints(page)
        yield page
        assert complaints.lines == []


def accessibility_findings(page: Page) -> list[str]:
    """axe-core's serious and critical findings in the page as it is now, a line each."""
    source = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    # Evaluated by the driver and not by a script element: the page's policy stays in force.
    page.evaluate(source)
    result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{found['id']}: {found['help']}: {node['html'][:200]}"
        for found in result["violations"]
        if found["impact"] in _SERIOUS
        for node in found["nodes"]
    ]


def sideways_overflow(page: Page) -> int:
    """By how many pixels the page is wider than the window."""
    return int(
        page.evaluate(
            "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )
