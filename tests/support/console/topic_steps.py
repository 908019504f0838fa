"""What a reader does on the page Topics, on any cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def dialog(page: Page) -> Locator:
    """The one on top."""
    return page.get_by_role("dialog").last


def create(page: Page, name: str, *, partitions: int, factor: int, configs: dict[str, str]) -> str:
    """By the form, exactly as drawn; the command that was shown."""
    page.goto("/create-topic")
    expect(page.get_by_role("table", name="Replicas by partition and broker")).to_be_visible()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Partitions", exact=True).fill(str(partitions))
    page.get_by_label("Replication factor").fill(str(factor))
    page.get_by_label("Replicas are placed").select_option("drawn")
    for config, value in configs.items():
        page.get_by_label("Add a config").fill(config)
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_label(config, exact=True).fill(value)
    expect(page.locator(".draw-grid tbody tr")).to_have_count(partitions)
    page.get_by_role("button", name="Create…").click()
    command = dialog(page).locator(".command code").first.inner_text()
    dialog(page).get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(partition_rows(page)).to_have_count(partitions)
    return command


def partition_rows(page: Page) -> Locator:
    return page.get_by_role("table", name="Partitions").locator("tbody tr:not(.spacer)")


def set_config(page: Page, config: str, value: str) -> str:
    """On the page of a topic; the command that was shown."""
    page.get_by_role("link", name="Configs").click()
    page.get_by_role("button", name=f"Edit {config}", exact=True).click()
    dialog(page).get_by_label("Value").fill(value)
    dialog(page).get_by_role("button", name="Set…").click()
    expect(dialog(page)).to_contain_text(f"Set {config}")
    command = dialog(page).locator(".command code").inner_text()
    dialog(page).get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    return command


def config_row(page: Page, config: str) -> Locator:
    exactly = page.locator(".config-name").get_by_text(config, exact=True)
    return page.get_by_role("table", name="Configs").locator("tbody tr").filter(has=exactly)


def expand(page: Page, total: int, *, exactly: bool = False) -> list[str]:
    """On the page of a topic; the rows of the preview."""
    page.get_by_role("link", name="Partitions").click()
    page.get_by_role("button", name="Add partitions…").click()
    dialog(page).get_by_label("Partitions in all").fill(str(total))
    if exactly:
        dialog(page).get_by_label("Send the placement along").check()
    dialog(page).get_by_role("button", name="See what happens…").click()
    expect(dialog(page)).to_contain_text("Records with a key may go to another partition")
    rows = dialog(page).locator("tbody tr").all_inner_texts()
    dialog(page).get_by_role("button", name="Add partitions", exact=True).click()
    expect(partition_rows(page)).to_have_count(total)
    return rows


def delete(page: Page, name: str) -> None:
    """Until the page says that the last folder is gone."""
    page.get_by_role("button", name="Delete…").click()
    go = dialog(page).get_by_role("button", name="Delete")
    expect(go).to_be_disabled()
    dialog(page).get_by_label(f"Type {name}").fill(name)
    go.click()
    expect(page.get_by_text(f"{name} is gone: no broker knows it")).to_be_visible()
