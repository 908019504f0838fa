"""What all pages share: the frame, the theme, the menu on a phone, an address without a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.support.console.browser import PHONE, accessibility_findings, sideways_overflow

if TYPE_CHECKING:
    from playwright.sync_api import Page


def test_the_first_page_is_the_cluster(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    expect(page.get_by_role("navigation").get_by_role("link", name="Cluster")).to_have_attribute(
        "aria-current", "page"
    )


def test_the_theme_is_the_readers(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert accessibility_findings(page) == []


def test_the_menu_opens_on_a_phone(page: Page) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/")
    link = page.get_by_role("navigation").get_by_role("link", name="Cluster")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    assert sideways_overflow(page) == 0
    assert accessibility_findings(page) == []


def test_an_address_without_a_page(page: Page) -> None:
    page.goto("/nowhere/at/all")
    expect(page.get_by_text("There is no such page.")).to_be_visible()


def test_a_link_of_another_site_does_not_end_the_session(page: Page, console: str) -> None:
    """The browser sends no cookie along (SameSite), and must not be given another one."""
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster")
    before = page.context.cookies()
    assert len(before) == 1
    link = f"<a href='{console}/api/v1/session'>prize</a>"
    page.route(
        "http://evil.example/", lambda route: route.fulfill(body=link, content_type="text/html")
    )
    page.goto("http://evil.example/")
    with page.expect_response(f"{console}/api/v1/session") as answered:
        page.get_by_text("prize").click()
    assert answered.value.status == 403
    assert page.context.cookies(console) == before
    # A link to a page still opens it.
    page.goto("/topics")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert page.context.cookies(console) == before
