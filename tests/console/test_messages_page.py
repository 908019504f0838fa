"""Messages: what is in a topic, whatever it is; nothing is committed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from playwright.sync_api import expect

from tests.support.console.browser import PHONE, accessibility_findings, sideways_overflow
from tests.support.console.readers import write

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

    from ottla.testing.cluster import ProcessCluster

EVIL = "<img src=x onerror=alert(1)>\x00\x1b[2J\u202eright"


def lines(page: Page) -> Locator:
    return page.locator("button.message-line")


def looked(page: Page) -> Locator:
    return page.locator("#main p[role=status]")


def test_pages_go_back_to_the_beginning(page: Page, cluster: ProcessCluster) -> None:
    topic = "messages-paged"
    # The records are of 1970: retention would delete them under the test.
    cluster.create_topic(topic, partitions=3, configs={"retention.ms": "-1"})
    write(
        cluster.bootstrap_servers,
        *(
            {"topic": topic, "key": f"k{i}", "value": f"v{i}", "timestamp": 1000 + i}
            for i in range(120)
        ),
    )
    page.goto("/messages")
    page.get_by_role("link", name=topic).click()
    expect(lines(page)).to_have_count(50)
    expect(lines(page).first).to_contain_text("v119")
    page.get_by_role("link", name="Older").click()
    expect(lines(page).first).to_contain_text("v69")
    page.get_by_role("link", name="Older").click()
    expect(lines(page)).to_have_count(20)
    expect(lines(page).last).to_contain_text("v0")
    page.go_back()
    expect(lines(page).first).to_contain_text("v69")
    page.get_by_label("Order").select_option("oldest")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(lines(page).first).to_contain_text("v0")
    page.get_by_label("Begin at").select_option("offset")
    page.get_by_label("Offset").fill("x")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(page.get_by_text("A whole number, 0 or more.")).to_be_visible()
    page.get_by_label("Offset").fill("2")
    page.get_by_label("Partitions").fill("1")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(lines(page).first).to_contain_text("1:2")
    page.goto(f"/messages/{topic}?order=oldest&time_ms=1100")
    expect(lines(page)).to_have_count(20)
    expect(lines(page).first).to_contain_text("v100")
    page.goto(f"/messages/{topic}?partitions=7")
    expect(page.get_by_text("The last partition is 2.")).to_be_visible()


def test_a_key_is_looked_for_where_it_belongs(page: Page, cluster: ProcessCluster) -> None:
    topic = "messages-keys"
    cluster.create_topic(topic, partitions=4)
    write(
        cluster.bootstrap_servers,
        *({"topic": topic, "key": f"k{i % 10}", "value": f"v{i}"} for i in range(100)),
        {"topic": topic, "key": "misplaced", "value": "elsewhere", "partition": 0},
        {"topic": topic, "key": "misplaced", "value": "elsewhere", "partition": 1},
        partitioner="murmur2",
    )
    page.goto(f"/messages/{topic}")
    page.get_by_label("Key", exact=True).fill("k7")
    page.get_by_role("button", name="Look", exact=True).click()
    expect(lines(page)).to_have_count(10)
    expect(looked(page)).to_contain_text("where Kafka's partitioner puts this key")
    page.goto(f"/messages/{topic}?key=nobody")
    expect(page.get_by_text("No record has this key.")).to_be_visible()
    expect(looked(page)).to_contain_text("That was all of it.")
    page.goto(f"/messages/{topic}?key=misplaced&everywhere=true")
    expect(lines(page)).to_have_count(2)


def test_hostile_bytes_are_text(page: Page, cluster: ProcessCluster) -> None:
    topic = "messages-hostile"
    cluster.create_topic(topic, partitions=1, configs={"max.message.bytes": "20000000"})
    document = json.dumps({"id": 12345678901234567890, "html": EVIL, "deep": [[[[1]]]]})
    write(
        cluster.bootstrap_servers,
        {
            "topic": topic,
            "key": b"\xff\xfe",
            "value": b"\x00\xffbin",
            "headers": [("bad", b"\xff")],
        },
        {"topic": topic, "key": EVIL, "value": None, "headers": [(EVIL, EVIL)] * 1000},
        {"topic": topic, "key": "doc", "value": document},
        {"topic": topic, "key": "big", "value": "y" * 10_000_000},
        **{"compression.type": "zstd"},
    )
    page.goto(f"/messages/{topic}?order=oldest")
    expect(lines(page)).to_have_count(4)
    expect(lines(page).nth(0)).to_contain_text("0xfffe")
    expect(lines(page).nth(1)).to_contain_text("<img src=x onerror=alert(1)>␀␛[2J⟨U+202E⟩right")
    assert page.locator("#main img").count() == 0
    for number in range(4):
        lines(page).nth(number).click()
    expect(page.get_by_text("null: a tombstone")).to_be_visible()
    expect(page.get_by_text("and 900 more")).to_be_visible()
    expect(page.get_by_text("12345678901234567890").last).to_be_visible()
    big = page.locator(".messages > li").last
    expect(big.get_by_text("The first 4.1 kB of 10 MB.")).to_be_visible()
    with page.expect_download() as download:
        big.get_by_label("Value").get_by_role("link", name="Download").click()
    assert download.value.path().stat().st_size == 10_000_000
    big.get_by_role("button", name="Show the first 1 MB").click()
    expect(big.get_by_text("The first 1 MB of 10 MB.")).to_be_visible()
    big.get_by_label("Value").get_by_role("button", name="Hex").click()
    expect(big.get_by_text("79 79 79")).to_be_visible()
    lines(page).nth(3).click()
    assert accessibility_findings(page) == []
    page.set_viewport_size(PHONE)
    assert sideways_overflow(page) == 0


def test_one_is_produced_and_those_who_follow_see_it(page: Page, cluster: ProcessCluster) -> None:
    topic = "messages-followed"
    cluster.create_topic(topic, partitions=2)
    page.goto(f"/messages/{topic}")
    expect(page.get_by_text("The topic is empty.")).to_be_visible()
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_text("Waiting for new records…")).to_be_visible()
    page.get_by_role("button", name="Produce…").click()
    page.get_by_label("Value", exact=True).fill("{")
    page.get_by_label("Value as").select_option("json")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_text("No JSON")).to_be_visible()
    page.get_by_label("Value", exact=True).fill('{"a": 1}')
    page.get_by_label("Key as").select_option("hex")
    page.get_by_label("Key", exact=True).fill("00ff")
    page.get_by_label("Headers").fill("trace: x\nnothing")
    page.get_by_role("button", name="Go on").click()
    command = page.get_by_text(f"{topic} --format json")
    expect(command).to_contain_text('{"key": {"base64": "AP8="}, "value": "{\\"a\\": 1}"')
    page.get_by_role("button", name="Write", exact=True).click()
    expect(page.get_by_text("at offset 0.")).to_be_visible()
    expect(lines(page)).to_have_count(1)
    expect(lines(page)).to_contain_text('{"a": 1}')
    write(
        cluster.bootstrap_servers,
        *({"topic": topic, "value": f"{i}", "partition": 0} for i in range(3000)),
    )
    expect(looked(page)).to_contain_text("came too fast and were skipped")
    expect(lines(page).first).to_contain_text("2999")
    assert accessibility_findings(page) == []


def test_what_was_aborted_is_marked_or_left_out(page: Page, cluster: ProcessCluster) -> None:
    topic = "messages-transactions"
    cluster.create_topic(topic, partitions=1)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "messages-page"}
    )
    producer.init_transactions()
    for value, end in (
        ("given up", producer.abort_transaction),
        ("kept", producer.commit_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush()
        end()
    producer.begin_transaction()
    producer.produce(topic, "open")
    producer.flush()
    page.goto(f"/messages/{topic}?order=oldest")
    expect(lines(page)).to_have_count(3)
    lines(page).first.click()
    expect(page.get_by_text("in one of producer")).to_be_visible()
    page.goto(f"/messages/{topic}?committed=true")
    expect(lines(page)).to_have_count(1)
    expect(lines(page)).to_contain_text("kept")
    page.goto(f"/messages/{topic}?committed=true&markers=true")
    expect(page.get_by_text("abort marker")).to_be_visible()
    expect(page.get_by_text("commit marker")).to_be_visible()
    page.goto(f"/messages/{topic}?committed=true&follow=true")
    expect(looked(page)).to_contain_text("Waiting for new records…")
    producer.commit_transaction()
    expect(lines(page)).to_contain_text("open")


def test_a_topic_that_is_not_there(page: Page) -> None:
    page.goto("/messages/nowhere")
    expect(page.get_by_text("There is no topic nowhere.")).to_be_visible()
