"""The pages Topics, Cluster and Placement on Apache Kafka: on 4.1, which has another rule of
placement and no ZooKeeper, and on 2.8.2, which has its znodes in Ottla's store."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.client.admin.types import NewTopic
from ottla.testing.console import running_console
from ottla.testing.java import ApacheKafka, KraftKafka
from tests.support.console.administration import administer
from tests.support.console.browser import watched_page
from tests.support.console.topic_steps import config_row, create, delete, expand, set_config
from tests.support.peers.java_tools import need_jars
from tests.support.peers.ottla_brokers import ottla_zookeeper

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(
    scope="module",
    params=["kafka-4.1", pytest.param("kafka-2.8.2", marks=pytest.mark.campaign)],
)
def bootstrap(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    need_jars(request.param)
    with ExitStack() as stack:
        if request.param == "kafka-4.1":
            yield stack.enter_context(KraftKafka(heap="512m")).bootstrap_servers
        else:
            # The fixture `campaign` is of a single test; this one is of all.
            if "campaign" not in request.config.getoption("-m"):
                pytest.skip("runs with -m campaign")
            folder = tmp_path_factory.mktemp("kafka") / "store"
            store = stack.enter_context(ottla_zookeeper(folder))
            yield stack.enter_context(ApacheKafka(store)).bootstrap_servers


@pytest.fixture
def page(browser: Browser, bootstrap: str) -> Iterator[Page]:
    with (
        running_console(bootstrap) as address,
        watched_page(browser, address) as page,
    ):
        yield page


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


def test_all_is_well_on_kafka(page: Page, bootstrap: str, request: pytest.FixtureRequest) -> None:
    topic = NewTopic("seen.on.kafka", 2, 1)
    administer(bootstrap, lambda admin: admin.create_topics([topic]))
    page.goto("/")
    expect(page.get_by_text(re.compile("^All is well: 1 broker, "))).to_be_visible()
    if request.node.callspec.params["bootstrap"] == "kafka-4.1":
        kraft = "KRaft: brokers do not say who the controller is"
        expect(page.get_by_text(kraft)).to_be_visible()
    broker = page.get_by_role("article", name="Broker 0")
    expect(broker).to_contain_text("alive")
    expect(broker.locator(".flow", has_text="Bytes out")).to_have_attribute(
        "title", re.compile("do not tell")
    )
    expect(broker.locator(".flow", has_text="Bytes out")).to_contain_text("–")
    page.goto("/placement")
    expect(page.get_by_role("button", name="seen.on.kafka-1 on broker 0: leader")).to_be_visible()
