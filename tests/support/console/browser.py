"""A real Chromium, driven by Playwright, and what is held against every page."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright, ViewportSize

# A container has no namespaces for the sandbox and little shared memory.
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
WIDE: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
_SERIOUS = ("serious", "critical")


def launch(playwright: Playwright, executable: str) -> Browser:
    return playwright.chromium.launch(executable_path=executable, args=FLAGS)


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
