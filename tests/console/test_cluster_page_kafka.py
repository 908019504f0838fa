"""The pages Cluster and Placement on Apache Kafka 4.1: what it does not tell is said to be so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from ottla.client.admin.types import NewTopic
from ottla.pipelines.topics import with_admin
from ottla.testing.java import KraftKafka
from tests.support.console.browser import WIDE, Complaints
from tests.support.console.process import running_console
from tests.support.peers.java_tools import need_jars

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def kafka() -> Iterator[KraftKafka]:
    need_jars("kafka-4.1")
    with KraftKafka(heap="512m") as kafka:
        topic = NewTopic("on.kafka", 2, 1, configs={"min.insync.replicas": "1"})
        with_admin(kafka.bootstrap_servers, {}, lambda admin: admin.create_topics([topic]))
        yield kafka


@pytest.fixture
def page(browser: Browser, kafka: KraftKafka) -> Iterator[Page]:
    with (
        running_console(kafka.bootstrap_servers) as address,
        browser.new_context(viewport=WIDE, base_url=address) as context,
    ):
        page = context.new_page()
        complaints = Complaints(page)
        yield page
        assert complaints.lines == []


def test_all_is_well_on_kafka_4(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_text(re.compile("^All is well: 1 broker, 2 partitions"))).to_be_visible()
    expect(page.get_by_text("KRaft: brokers do not say who the controller is")).to_be_visible()
    broker = page.get_by_role("article", name="Broker 0")
    expect(broker).to_contain_text("alive")
    expect(broker.locator(".flow", has_text="Bytes out")).to_have_attribute(
        "title", re.compile("do not tell")
    )
    expect(broker.locator(".flow", has_text="Bytes out")).to_contain_text("–")
    page.goto("/placement")
    expect(page.get_by_role("button", name="on.kafka-1 on broker 0: leader")).to_be_visible()
