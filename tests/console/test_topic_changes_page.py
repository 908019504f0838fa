"""Deleted topics brought back and removed, another name, a resize that is planned and given up."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ottla.client.admin.types import NewTopic, raise_first_error
from ottla.testing.console import running_console
from tests.support.console.administration import administer
from tests.support.console.browser import (
    PHONE,
    WIDE,
    accessibility_findings,
    sideways_overflow,
    watched_page,
)
from tests.support.console.topic_steps import dialog

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from ottla.client.admin.client import Admin
    from ottla.testing.cluster import ProcessCluster

_KEPT = {"ottla.delete.retention.ms": "86400000"}


def _administer(cluster: ProcessCluster, work: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
    return administer(cluster.bootstrap_servers, work)


def _make(cluster: ProcessCluster, *names: str, partitions: int = 2) -> None:
    async def make(admin: Admin) -> None:
        wanted = [NewTopic(name, partitions, 2, configs=_KEPT) for name in names]
        raise_first_error(await admin.create_topics(wanted))

    _administer(cluster, make)


def _topics(cluster: ProcessCluster) -> set[str]:
    async def ask(admin: Admin) -> set[str]:
        return {one.name for one in await admin.list_topics()}

    found: set[str] = _administer(cluster, ask)
    return found


def _look_at(page: Page) -> None:
    for theme in ("light", "dark"):
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        assert accessibility_findings(page) == []
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0
    page.set_viewport_size(WIDE)


def _row(page: Page, name: str) -> Any:
    exactly = page.get_by_text(name, exact=True)
    return page.get_by_role("table", name="Deleted topics").locator("tbody tr").filter(has=exactly)


def _delete(page: Page, name: str) -> None:
    page.goto(f"/topics/{name}")
    page.get_by_role("button", name="Delete…").click()
    expect(dialog(page)).to_contain_text("will be in the trash, and can be brought back for 1 d")
    dialog(page).get_by_label(f"Type {name}").fill(name)
    dialog(page).get_by_role("button", name="Delete").click()
    expect(_row(page, name)).to_be_visible()


def test_a_deleted_topic_comes_back_and_another_goes_for_good(
    page: Page, cluster: ProcessCluster
) -> None:
    _make(cluster, "trash.a", "trash.b")
    _delete(page, "trash.a")
    _delete(page, "trash.b")
    _make(cluster, "trash.a")
    _look_at(page)
    _row(page, "trash.a").get_by_role("button", name="Bring trash.a back…").click()
    dialog(page).get_by_role("button", name="Bring back…").click()
    expect(dialog(page)).to_contain_text("There is a topic trash.a: choose another name.")
    dialog(page).get_by_label("Under the name").fill("trash.before")
    dialog(page).get_by_role("button", name="Bring back…").click()
    expect(dialog(page)).to_contain_text("Bring trash.a back as trash.before")
    command = dialog(page).locator(".command code").inner_text()
    assert "ottla undelete" in command and "--as trash.before" in command
    dialog(page).get_by_role("button", name="Bring back", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("trash.before")
    assert {"trash.a", "trash.before"} <= _topics(cluster)
    page.goto("/topics")
    page.get_by_role("link", name="Deleted topics").click()
    _row(page, "trash.b").get_by_role("button", name="Remove trash.b for good…").click()
    # The command that is shown does the same.
    command = dialog(page).locator(".command code").inner_text()
    arguments = shlex.split(command.removeprefix("ottla "))
    subprocess.run([sys.executable, "-m", "ottla", *arguments], check=True, capture_output=True)
    dialog(page).get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Nothing is in the trash.")).to_be_visible()


def test_another_name(page: Page, cluster: ProcessCluster) -> None:
    _make(cluster, "named.old", "named.taken")
    page.goto("/topics/named.old")
    page.get_by_role("button", name="Rename…").click()
    name, go = dialog(page).get_by_label("New name"), dialog(page).get_by_role("button").last
    name.fill("named.taken")
    go.click()
    expect(dialog(page).locator(".field-error")).to_contain_text("already exists")
    name.fill("named.new")
    go.click()
    expect(dialog(page)).to_contain_text("It stays the same topic")
    assert "ottla rename" in dialog(page).locator(".command code").inner_text()
    _look_at(page)
    dialog(page).get_by_role("button", name="Rename", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("named.new")
    expect(page.get_by_role("table", name="Partitions")).to_be_visible()
    found = _topics(cluster)
    assert "named.new" in found and "named.old" not in found


def test_a_resize_is_planned_shown_and_given_up(page: Page, cluster: ProcessCluster) -> None:
    _make(cluster, "sized", partitions=4)
    page.goto("/topics/sized")
    page.get_by_role("button", name="Resize…").click()
    dialog(page).get_by_label("Partitions").fill("4")
    plan = dialog(page).get_by_role("button", name="Show the plan")
    plan.click()
    expect(dialog(page)).to_contain_text("has 4 partitions and replication factor 2 already")
    dialog(page).get_by_label("Partitions").fill("3")
    dialog(page).get_by_label("Keys are placed by").select_option("consistent_random")
    plan.click()
    expect(dialog(page)).to_contain_text("From 4 partitions to 3, 2 replicas each")
    expect(dialog(page)).to_contain_text("the old topic goes to the trash")
    command = dialog(page).locator(".command code").inner_text()
    assert command.endswith(" --partitions 3 --partitioner consistent_random sized")
    _look_at(page)
    arguments = shlex.split(command.removeprefix("ottla "))
    dry_run = [sys.executable, "-m", "ottla", *arguments, "--dry-run"]
    assert subprocess.run(dry_run, check=True, capture_output=True).stdout.startswith(b"sized: 4")
    dialog(page).get_by_role("button", name="Close").click()

    async def begin(admin: Admin) -> None:
        await admin.begin_resize("sized", 3, partitioner="murmur2")

    _administer(cluster, begin)
    expect(page.get_by_text("The topic gets 3 partitions")).to_contain_text("serves as before")
    _look_at(page)
    page.goto("/topics")
    notice = page.locator(".resizes .notice")
    expect(notice).to_contain_text("sized gets 3 partitions")
    notice.get_by_role("button", name="Give up the resize of sized…").click()
    assert "--abort sized" in dialog(page).locator(".command code").inner_text()
    dialog(page).get_by_role("button", name="Give up", exact=True).click()
    expect(notice).to_have_count(0)


@pytest.fixture(scope="module")
def read_only(browser: Browser, cluster: ProcessCluster) -> Iterator[Page]:
    with (
        running_console(cluster.bootstrap_servers, "--read-only") as address,
        watched_page(browser, address, timeout_ms=30_000) as page,
    ):
        yield page


def test_a_read_only_console_names_the_command(read_only: Page, cluster: ProcessCluster) -> None:
    _make(cluster, "watched")
    read_only.goto("/topics/watched")
    read_only.get_by_role("button", name="Rename…").click()
    dialog(read_only).get_by_label("New name").fill("watched.new")
    dialog(read_only).get_by_role("button", name="See what happens…").click()
    expect(dialog(read_only)).to_contain_text("This console is read-only: use the command.")
    expect(dialog(read_only).get_by_role("button", name="Rename", exact=True)).to_be_disabled()
    refused = read_only.evaluate(
        """async () => {
            const { token } = await (await fetch("/api/v1/session")).json();
            const answer = await fetch("/api/v1/topics/watched/name", {
                method: "POST", headers: { "x-ottla-token": token }, body: '{"new_name": "x"}' });
            return answer.status;
        }"""
    )
    assert refused == 403
    assert "watched" in _topics(cluster)
