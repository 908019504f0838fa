"""Clients that speak as they did before 0.11: kafka-python and librdkafka, told an old version."""

from __future__ import annotations

from collections import Counter
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.known_topics import await_known

pytestmark = pytest.mark.peers

RECORDS = 500
TIMEOUT_S = 60
FIRST_MS = 1_700_000_000_000
# librdkafka asks newer brokers for their versions, whatever it is told.
OLD_LIBRDKAFKA = ("0.8.2", "0.9.0")

Sent = dict[bytes, bytes]


def _wanted(tag: str) -> Sent:
    return {f"{tag}-{number}".encode(): b"%d" % number * 20 for number in range(RECORDS)}


def _make_topic(cluster: Any, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, 3, 3)]).values():
        made.result(TIMEOUT_S)
    await_known(cluster.bootstrap_servers, name, 3)


def _write_librdkafka(cluster: Any, topic: str, sent: Sent, **config: Any) -> None:
    failed: list[Any] = []

    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            failed.append(error)

    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, **config}
    )
    headers = [] if "api.version.request" in config else [("h", b"1")]
    for key, value in sent.items():
        producer.produce(topic, value, key, headers=headers, on_delivery=delivered)
    assert producer.flush(TIMEOUT_S) == 0
    assert failed == []


def _read_librdkafka(cluster: Any, topic: str, count: int, **config: Any) -> list[Any]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", **config}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, part, 0) for part in range(3)])
        found = []
        while len(found) < count:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{len(found)} of {count}"
            assert message.error() is None, message.error()
            found.append((message.key(), message.value(), message.timestamp()))
        return found
    finally:
        consumer.close()


def _write_kafka_python(cluster: Any, topic: str, sent: Sent, **config: Any) -> None:
    servers = cluster.bootstrap_servers.split(",")
    producer = kafka.KafkaProducer(bootstrap_servers=servers, linger_ms=20, **config)
    try:
        futures = [producer.send(topic, value, key=key) for key, value in sent.items()]
        producer.flush(TIMEOUT_S)
        places = {(place.partition, place.offset) for place in (f.get(1) for f in futures)}
        assert len(places) == len(sent)
    finally:
        producer.close()


def _read_kafka_python(cluster: Any, topic: str, count: int, **config: Any) -> list[Any]:
    """In a group, which 0.9 had already."""
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers.split(","),
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1000,
        **config,
    )
    try:
        found = []
        for record in consumer:
            found.append((record.key, record.value, (record.timestamp_type, record.timestamp)))
            if len(found) == count:
                break
        return found
    finally:
        consumer.close()


def _check(found: list[Any], sent: Sent) -> None:
    assert Counter((key, value) for key, value, _ in found) == Counter(sent.items())


@pytest.mark.parametrize("version", OLD_LIBRDKAFKA)
def test_librdkafka_of_old(ottla_processes: Any, version: str) -> None:
    topic = f"librdkafka-{version}"
    old = {"api.version.request": "false", "broker.version.fallback": version}
    _make_topic(ottla_processes, topic)
    sent: Sent = {}
    for codec in ("none", "gzip", "snappy", "lz4"):
        for tag, config in (("old", old), ("new", {})):
            part = _wanted(f"{tag}-{codec}")
            _write_librdkafka(ottla_processes, topic, part, **config, **{"compression.type": codec})
            sent |= part
    for config in ({}, old, {**old, "fetch.message.max.bytes": 1000}):
        found = _read_librdkafka(ottla_processes, topic, len(sent), **config)
        _check(found, sent)
        kinds = {kind for _, _, (kind, _) in found}
        # Format 0 has no time to tell.
        assert (kinds == {confluent_kafka.TIMESTAMP_NOT_AVAILABLE}) == bool(config)


@pytest.mark.parametrize(("version", "has_times"), [((0, 9), False), ((0, 10), True)])
def test_kafka_python_of_old(
    ottla_processes: Any, version: tuple[int, int], has_times: bool
) -> None:
    topic = f"kafka-python-{version[1]}"
    _make_topic(ottla_processes, topic)
    sent: Sent = {}
    for codec in (None, "gzip"):
        part = _wanted(f"old-{codec}")
        _write_kafka_python(
            ottla_processes, topic, part, api_version=version, compression_type=codec
        )
        sent |= part
    part = _wanted("new")
    _write_librdkafka(ottla_processes, topic, part)
    sent |= part
    found = _read_kafka_python(ottla_processes, topic, len(sent), api_version=version)
    _check(found, sent)
    assert {kind for _, _, (kind, _) in found} == {0 if has_times else None}
    assert all((time or 0) > FIRST_MS for _, _, (_, time) in found) == has_times
    _check(_read_librdkafka(ottla_processes, topic, len(sent)), sent)
