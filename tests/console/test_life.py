"""Life of a topic: it is made, watched and deleted while somebody looks; a controller is killed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import expect

from ottla.testing.cluster import ProcessCluster
from ottla.testing.console import running_console
from tests.support.console.browser import (
    PHONE,
    WIDE,
    Complaints,
    accessibility_findings,
    sideways_overflow,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def admin_of(cluster: ProcessCluster) -> Any:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "client.id": "a-student"})


def arrow_count(page: Page, step: str) -> int:
    text = page.locator(f'[data-step="{step}"] .arrow-count').text_content() or "0"
    return int(text.replace(",", ""))


def test_a_topic_is_made_and_deleted_before_the_readers_eyes(
    page: Page, cluster: ProcessCluster, tmp_path: Path
) -> None:
    page.goto("/life")
    made = "NewPartition>OnlinePartition"
    expect(page.locator(f'[data-step="{made}"]')).to_be_attached()
    before = arrow_count(page, made)
    admin = admin_of(cluster)
    new = NewTopic("life-of-it", 3, 3, config={"file.delete.delay.ms": "500"})
    admin.create_topics([new])["life-of-it"].result(30)
    expect(page.locator(f'[data-step="{made}"]')).to_have_class(re.compile("is-lit"))
    assert arrow_count(page, made) >= before + 3
    page.get_by_role("link", name="life-of-it").click()
    steps = page.locator(".life-steps")
    expect(page.locator("table.states .folder")).to_have_count(9)
    for broker in (0, 1, 2):
        expect(steps).to_contain_text(f"Broker {broker} makes the log folder of partition")
    expect(steps).to_contain_text("(client id a-student) wants topic life-of-it with 3 partitions")
    expect(steps).to_contain_text("/brokers/topics/life-of-it written")
    expect(steps).to_contain_text("LeaderAndIsr to broker 2")
    assert accessibility_findings(page) == []

    slider = page.get_by_label("Step", exact=True)
    slider.fill("4")  # a partition is new before it is online
    states = page.locator("table.states tbody tr").first
    expect(states).to_contain_text("New")
    expect(states).not_to_contain_text("folder")
    slider.fill(slider.get_attribute("max") or "")
    expect(states).to_contain_text("Online")
    expect(states).to_contain_text("folder")

    with page.expect_download() as download:
        page.get_by_role("link", name="Save a record").click()
    saved = tmp_path / "record.json"
    download.value.save_as(saved)

    admin.delete_topics(["life-of-it"])["life-of-it"].result(30)
    expect(steps).to_contain_text("wants topic life-of-it gone")
    for broker in (0, 1, 2):
        expect(steps).to_contain_text(f"Broker {broker} removes the folder of partition")
    expect(page.locator("table.states .folder", has_text="removed")).to_have_count(9)

    page.get_by_label("Play a saved record").set_input_files(saved)
    expect(page.get_by_text("not the cluster as it is now")).to_be_visible()
    expect(steps).to_contain_text("/brokers/topics/life-of-it written")
    expect(steps).not_to_contain_text("wants topic life-of-it gone")
    page.get_by_role("button", name="Back to the live cluster").click()
    expect(steps).to_contain_text("wants topic life-of-it gone")


def test_files_that_are_no_record(page: Page, tmp_path: Path) -> None:
    page.goto("/life")
    picker = page.get_by_label("Play a saved record")
    bad = tmp_path / "bad.json"
    step = {"id": "x", "order": [1, "<b>", 3]}
    life = {"head": None, "brokers": [], "steps": [step]}
    for text, words in (
        ("{", "it is not JSON"),
        ("[]", "no record of the life of topics"),
        (json.dumps({"format": "ottla-life", "version": 1, "life": life}), "cannot be read"),
    ):
        bad.write_text(text)
        picker.set_input_files(bad)
        expect(page.get_by_role("alert")).to_contain_text(words)


def test_on_a_phone_and_in_the_dark(page: Page, cluster: ProcessCluster) -> None:
    page.set_viewport_size(PHONE)
    page.goto("/life/never-heard-of")
    expect(page.get_by_text("Nothing is known of never-heard-of")).to_be_visible()
    page.get_by_role("button", name="Dark").click()
    assert sideways_overflow(page) == 0
    assert accessibility_findings(page) == []


def test_a_successor_shows_its_own_epoch(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("life") / "data"
    overrides = {"zookeeper.session.timeout.ms": "2000"}
    with (
        ProcessCluster(brokers=2, data=data, overrides=overrides) as cluster,
        running_console(cluster.bootstrap_servers) as address,
        browser.new_context(viewport=WIDE, base_url=address) as context,
    ):
        context.set_default_timeout(20_000)
        page = context.new_page()
        complaints = Complaints(page)
        page.goto("/life")
        stats = page.locator(".stats")
        expect(stats).to_contain_text(re.compile(r"Epoch1E"))
        controller = int(re.findall(r"Broker (\d)", stats.text_content() or "")[0])
        cluster.kill(controller)
        expect(stats).to_contain_text(re.compile(r"Epoch2E"), timeout=30_000)
        expect(stats).to_contain_text(f"Broker {1 - controller}")
        assert complaints.lines == []
