"""The page Topics on a cluster of three: the list, creation, configs, expansion, deletion."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from ottla.client.admin.types import ConfigEdit, ConfigResource, NewTopic, raise_first_error
from ottla.testing.console import running_console
from tests.support.console.administration import administer
from tests.support.console.browser import (
    PHONE,
    WIDE,
    accessibility_findings,
    sideways_overflow,
    watched_page,
)
from tests.support.console.scrolling import scroll_to_the_end
from tests.support.console.topic_steps import (
    config_row,
    create,
    delete,
    dialog,
    expand,
    partition_rows,
    set_config,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

    from ottla.client.admin.client import Admin
    from ottla.testing.cluster import ProcessCluster

_HOSTILE = '<img src=x onerror="alert(1)">\u202e\'"&amp;'
# Of the list with 50,000 partitions.
_MANY = 5_000


def _administer(cluster: ProcessCluster, work: Callable[[Admin], Coroutine[Any, Any, Any]]) -> Any:
    return administer(cluster.bootstrap_servers, work)


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: ProcessCluster) -> None:
    async def make(admin: Admin) -> None:
        wanted = [NewTopic(f"list.{name}", 2, 1) for name in ("apples", "pears", "plums")]
        wanted.append(NewTopic("list.spread", assignments={0: [0, 1], 1: [1, 0], 2: [1, 0]}))
        raise_first_error(await admin.create_topics(wanted))

    _administer(cluster, make)


@pytest.fixture(scope="module")
def own_page(browser: Browser, cluster: ProcessCluster) -> Iterator[Page]:
    """Of a console that is read-only."""
    with (
        running_console(cluster.bootstrap_servers, "--read-only") as address,
        watched_page(browser, address, timeout_ms=30_000) as page,
    ):
        yield page


def _look_at(page: Page, *themes: str) -> None:
    """What is held against every page as it is now, wide and on a phone."""
    for theme in themes:
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        assert accessibility_findings(page) == []
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0
    page.set_viewport_size(WIDE)


def _names(page: Page) -> list[str]:
    return page.get_by_role("table", name="Topics").locator("tbody a").all_inner_texts()


def test_search_filter_and_order_are_in_the_address(page: Page) -> None:
    page.goto("/topics")
    page.get_by_label("Search").fill("LIST.P")
    expect(page.locator(".list-summary")).to_contain_text("2 topics, 4 partitions")
    page.get_by_role("button", name="Name").click()
    assert _names(page) == ["list.plums", "list.pears"]
    page.reload()
    expect(page.locator(".list-summary")).to_contain_text("2 topics, 4 partitions")
    assert _names(page) == ["list.plums", "list.pears"]
    page.get_by_role("link", name="list.pears").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("list.pears")
    page.go_back()
    expect(page.get_by_label("Search")).to_have_value("LIST.P")
    _look_at(page, "dark", "light")
    page.get_by_label("Search").fill("nothing is called that")
    expect(page.get_by_text("No topic is like that.")).to_be_visible()


def test_topics_on_a_broker(page: Page) -> None:
    page.goto("/topics?q=list.spread&broker=1")
    expect(page.get_by_role("link", name="list.spread")).to_be_visible()
    expect(page.get_by_label("On broker").locator("option:checked")).to_have_text("1 (west)")
    page.get_by_label("On broker").select_option("2")
    expect(page.get_by_text("No topic is like that.")).to_be_visible()


def test_the_list_follows_the_cluster(page: Page, cluster: ProcessCluster) -> None:
    page.goto("/topics?q=passing")
    expect(page.get_by_text("No topic is like that.")).to_be_visible()
    cluster.create_topic("passing", partitions=1)
    expect(page.get_by_role("link", name="passing")).to_be_visible()
    _administer(cluster, lambda admin: admin.delete_topics(["passing"]))
    expect(page.get_by_role("link", name="passing")).to_have_count(0)


def test_sizes_and_records_come_later(own_page: Page, cluster: ProcessCluster) -> None:
    """On a console of its own: it remembers for some time what it counted."""
    page = own_page
    command = [sys.executable, "-m", "ottla", "produce", "--topic", "list.plums"]
    servers = ["--bootstrap-server", cluster.bootstrap_servers]
    subprocess.run([*command, *servers], input="a\nb\nc\n", text=True, check=True)
    held: list[Route] = []
    page.route("**/api/v1/topic-sizes", lambda route: held.append(route))
    page.goto("/topics?q=list.plums")
    row = page.get_by_role("table", name="Topics").locator("tbody tr").filter(has_text="list.plums")
    expect(row.locator("td").nth(4)).to_have_text("3")
    expect(row.locator("td").nth(5)).to_have_text("–")
    held[0].continue_()
    expect(row.locator("td").nth(5)).to_contain_text("B")
    page.goto("/topics/list.plums")
    expect(page.locator(".stat").filter(has_text="Records").locator("dd")).to_have_text("3")
    reading = ["consume", "--topic", "list.plums", "--group", _HOSTILE, "--max-messages", "3"]
    subprocess.run(
        [sys.executable, "-m", "ottla", *reading, *servers], capture_output=True, check=True
    )
    page.locator(".tabs").get_by_text("Groups").click()
    row = page.get_by_role("table", name="Groups").locator("tbody tr").filter(has_text="onerror")
    expect(row.locator("td").last).to_have_text("0")
    assert page.locator("img[src=x]").count() == 0
    _look_at(page, "dark")


def test_from_creation_to_the_last_folder(page: Page, cluster: ProcessCluster) -> None:
    name = "whole.life"
    shown = create(page, name, partitions=5, factor=2, configs={"retention.ms": "86400000"})
    assert f"--create --topic {name} --replica-assignment " in shown
    described = _administer(cluster, lambda admin: admin.describe_topics([name]))[name]
    drawn = shlex.split(shown)[shlex.split(shown).index("--replica-assignment") + 1]
    placed = ",".join(":".join(map(str, p.replicas)) for p in described.partitions)
    assert placed == drawn

    command = set_config(page, "cleanup.policy", "compact,delete")
    assert "--add-config 'cleanup.policy=[compact,delete]'" in command
    expect(config_row(page, "cleanup.policy")).to_contain_text("set here")
    _look_at(page, "dark")
    page.get_by_role("button", name="Reset cleanup.policy").click()
    expect(dialog(page)).to_contain_text("--delete-config cleanup.policy")
    dialog(page).get_by_role("button", name="Reset").click()
    expect(config_row(page, "cleanup.policy")).not_to_contain_text("set here")

    rows = expand(page, 7)
    described = _administer(cluster, lambda admin: admin.describe_topics([name]))[name]
    placed_then = [
        f"{p.partition}\t{', '.join(map(str, p.replicas))}" for p in described.partitions
    ]
    assert rows == placed_then[5:]

    delete(page, name)
    _look_at(page, "dark")
    page.reload()
    expect(page.get_by_text(f"{name} is gone")).to_be_visible()

    async def folders(admin: Admin) -> list[str]:
        dirs = [one for b in range(3) for one in (await admin.describe_log_dirs(b)).values()]
        return [str(replica.partition) for one in dirs for replica in one.replicas]

    assert not [folder for folder in _administer(cluster, folders) if folder.startswith(name)]


def test_a_number_is_typed_in_place_of_the_one_that_is_proposed(page: Page) -> None:
    """The proposal came when the field had been selected already: 5 behind it was 35 partitions."""
    page.goto("/topics/list.pears")
    page.get_by_role("link", name="Partitions").click()
    rows = partition_rows(page)
    expect(rows.first).to_be_visible()
    proposed = str(rows.count() + 1)
    held: list[Route] = []
    page.route("**/api/v1/topics/list.pears", lambda route: held.append(route))
    page.get_by_role("button", name="Add partitions…").click()
    field = dialog(page).get_by_label("Partitions in all")
    expect(field).to_be_focused()
    page.wait_for_timeout(100)
    while held:
        held.pop().continue_()
    expect(field).to_have_value(proposed)
    page.keyboard.type("5")
    expect(field).to_have_value("5")
    page.unroute_all(behavior="ignoreErrors")


def test_the_command_that_is_shown_does_the_same(page: Page, cluster: ProcessCluster) -> None:
    page.goto("/create-topic")
    page.get_by_label("Name", exact=True).fill("by.command")
    page.get_by_label("Partitions", exact=True).fill("2")
    page.get_by_role("button", name="Create…").click()
    line = dialog(page).locator(".command code").inner_text()
    dialog(page).get_by_role("button", name="Cancel").click()
    done = subprocess.run(
        [sys.executable, "-m", *shlex.split(line)], capture_output=True, text=True, check=False
    )
    assert "Created topic by.command." in done.stdout, done.stderr
    page.goto("/topics/by.command")
    expect(partition_rows(page)).to_have_count(2)


def test_what_is_wrong_stands_at_its_field(page: Page) -> None:
    page.goto("/create-topic")
    table = page.get_by_role("table", name="Replicas by partition and broker")
    expect(table).to_be_visible()
    page.get_by_label("Name", exact=True).fill("list.pears")
    page.get_by_role("button", name="Create…").click()
    expect(page.get_by_role("alert").filter(has_text="already exists")).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
    page.get_by_label("Name", exact=True).fill("fine")
    page.get_by_label("Replication factor").fill("4")
    expect(
        page.get_by_role("alert").filter(has_text="larger than available brokers: 3")
    ).to_be_visible()
    page.get_by_label("Replication factor").fill("2")
    expect(table).to_be_visible()
    page.get_by_label("Add a config").fill("retention.ms")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_label("retention.ms", exact=True).fill(_HOSTILE)
    page.get_by_role("button", name="Create…").click()
    expect(page.get_by_role("alert").filter(has_text=_HOSTILE[:20])).to_be_visible()
    expect(page.get_by_label("retention.ms", exact=True)).to_be_focused()
    assert page.locator("img[src=x]").count() == 0
    _look_at(page, "dark", "light")
    page.get_by_label("Replicas are placed").select_option("hand")
    page.get_by_label("Brokers of each partition").fill("0, 1\n1, one")
    page.get_by_role("button", name="Create…").click()
    expect(page.get_by_text("Line 2: “one” is no broker id.")).to_be_visible()


def test_the_steps_of_the_placement(page: Page) -> None:
    page.goto("/create-topic")
    page.get_by_label("Replication factor").fill("2")
    page.get_by_label("Start index").fill("1")
    expect(page.locator(".draw-grid tbody .mark")).to_have_count(6)
    page.get_by_label("Shift").fill("0")
    words = page.locator(".step-words")
    expect(words).to_contain_text("Start index 1, shift 0; brokers so that racks take turns.")
    expect(page.locator(".draw-grid tbody .mark")).to_have_count(6)
    page.get_by_label("Step").fill("2")
    # Broker 1 is in the west, and so is its neighbour: the east has none yet.
    expect(words).to_contain_text("rack west has one, others have none: passed over.")
    expect(page.locator(".draw-grid tbody .mark.over")).to_have_count(1)
    page.get_by_role("button", name="Back").click()
    expect(words).to_contain_text(
        "The first replica takes index (0 + start 1) mod 3 = 1: broker 1."
    )


def test_hostile_words_are_words(page: Page, cluster: ProcessCluster) -> None:
    async def work(admin: Admin) -> None:
        resource = ConfigResource.topic("list.apples")
        edit = ConfigEdit("leader.replication.throttled.replicas", "0:1,1:2")
        raise_first_error(await admin.incremental_alter_configs({resource: [edit]}))

    _administer(cluster, work)

    def evil(route: Route) -> None:
        answer = route.fetch()
        value = json.loads(answer.text())
        for one in value:
            one["value"] = one["documentation"] = one["words"] = _HOSTILE
        route.fulfill(response=answer, body=json.dumps(value))

    page.route("**/api/v1/topics/list.apples/configs", evil)
    page.goto("/topics/list.apples?tab=configs")
    expect(config_row(page, "leader.replication.throttled.replicas")).to_contain_text(_HOSTILE)
    assert page.locator("img[src=x]").count() == 0
    page.goto("/topics/%3Cimg%20src%3Dx%3E")
    expect(page.get_by_role("alert")).to_contain_text("is illegal")
    assert page.locator("img[src=x]").count() == 0
    page.goto("/topics/nobody.has.this")
    expect(page.get_by_role("alert")).to_contain_text("UNKNOWN_TOPIC_OR_PARTITION")


def test_a_read_only_console_shows_the_command_and_writes_nothing(own_page: Page) -> None:
    own_page.goto("/topics/list.pears")
    own_page.get_by_role("button", name="Delete…").click()
    expect(dialog(own_page)).to_contain_text("ottla topics")
    dialog(own_page).get_by_label("Type list.pears").fill("list.pears")
    expect(dialog(own_page).get_by_role("button", name="Delete")).to_be_disabled()
    expect(dialog(own_page)).to_contain_text("read-only")


def test_a_list_of_50_000_partitions_scrolls(page: Page) -> None:
    """What a browser does with it; `test_topics_many.py` makes them on a real cluster."""
    rows = [
        {
            "name": f"topic-{i:05}", "internal": False, "partitions": 10, "replication_factor": 3,
            "under_replicated": 0, "without_leader": 0, "brokers": [0, 1, 2],
        }
        for i in range(_MANY)
    ]  # fmt: skip
    whole = {"brokers": [{"id": 0, "rack": None}], "partitions": 50_000, "topics": rows, "gone": []}
    event = f"event: whole\ndata: {json.dumps(whole)}\n\n"
    page.route(
        "**/api/v1/live/topics",
        lambda route: route.fulfill(content_type="text/event-stream", body=event),
    )
    page.goto("/topics")
    expect(page.locator(".list-summary")).to_contain_text("5,000 topics, 50,000 partitions")
    expect(page.get_by_role("button", name="Count records")).to_be_visible()
    scrolled = scroll_to_the_end(page)
    print(scrolled)
    # Drawing all rows at every step takes seconds.
    assert scrolled.cpu_ms_per_frame < 50
    drawn = page.get_by_role("table", name="Topics").locator("tbody tr").count()
    assert drawn < 100
    assert "topic-04999" in _names(page)
    page.set_viewport_size(PHONE)
    expect(page.get_by_role("table", name="Topics")).to_have_attribute("aria-rowcount", "5001")
    assert page.get_by_role("table", name="Topics").locator("tbody tr").count() < 100
