"""The same page on Apache Kafka: on 4.1, which has another rule of placement and no ZooKeeper, and
on 2.8.2, which has its znodes in Ottla's store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.testing.java import ApacheKafka, KraftKafka
from tests.support.console.administration import administer
from tests.support.console.browser import WIDE, Complaints
from tests.support.console.process import running_console
from tests.support.console.topic_steps import config_row, create, delete, expand, set_config
from tests.support.peers.java_tools import need_jars
from tests.support.peers.ottla_brokers import ottla_zookeeper

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture(
    params=["kafka-4.1", pytest.param("kafka-2.8.2", marks=pytest.mark.campaign)],
)
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    need_jars(request.param)
    with ExitStack() as stack:
        if request.param == "kafka-4.1":
            yield stack.enter_context(KraftKafka(heap="512m")).bootstrap_servers
        else:
            request.getfixturevalue("campaign")
            store = stack.enter_context(ottla_zookeeper(tmp_path / "store"))
            yield stack.enter_context(ApacheKafka(store)).bootstrap_servers


@pytest.fixture
def page(browser: Browser, bootstrap: str) -> Iterator[Page]:
    with (
        running_console(bootstrap) as address,
        browser.new_context(viewport=WIDE, base_url=address) as context,
    ):
        context.set_default_timeout(20_000)
        page = context.new_page()
        complaints = Complaints(page)
        yield page
        assert complaints.lines == []


def test_from_creation_to_deletion_on_kafka(page: Page, bootstrap: str) -> None:
    name = "on.kafka"
    create(page, name, partitions=3, factor=1, configs={"retention.ms": "86400000"})
    set_config(page, "segment.bytes", "2097152")
    expect(config_row(page, "segment.bytes")).to_contain_text("set here")
    # Kafka's documentation is HTML: it is shown as text, without tags.
    expect(config_row(page, "segment.bytes")).not_to_contain_text("<")
    expect(config_row(page, "retention.ms")).to_contain_text("86400000")
    expect(config_row(page, "retention.ms")).to_contain_text("Default: 604800000")
    rows = expand(page, 5, exactly=True)
    assert [row.split("\t")[0] for row in rows] == ["3", "4"]
    described = administer(bootstrap, lambda admin: admin.describe_topics([name]))
    assert len(described[name].partitions) == 5
    page.goto("/topics")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    page.get_by_role("link", name=name).click()
    delete(page, name)
    page.goto("/create-topic")
    page.get_by_label("Name", exact=True).fill("bad name")
    page.get_by_role("button", name="Create…").click()
    expect(page.get_by_role("alert").filter(has_text=re.compile("illegal|invalid"))).to_be_visible()
    expect(page.get_by_label("Name", exact=True)).to_be_focused()
