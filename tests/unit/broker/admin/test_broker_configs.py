"""Broker configs altered at run time: the requests, and how a running broker follows."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.admin.config_changes import ConfigChanges
from ottla.broker.admin.live_config import LiveConfig
from ottla.broker.admin.topic_settings import TopicSettings
from ottla.broker.handlers import alter_configs, describe_configs, incremental_alter_configs
from ottla.broker.membership.registration import create_permanent_paths
from ottla.config.broker import BrokerConfig
from ottla.metadata import znodes
from ottla.metadata.store import CreateMode
from ottla.metadata.znodes import ConfigZnode
from ottla.runtime import SystemClock
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import context
from tests.support.zk.polling import until

BASE = {"zookeeper.connect": "x:1", "broker.id": "1", "listeners": "PLAINTEXT://h:9092"}
CONFIG = BrokerConfig.from_properties(BASE)
SET, DELETE, APPEND = 0, 1, 2
Incremental = m.IncrementalAlterConfigsRequest
Change = tuple[int, str, str | None]
RESOURCE = "Invalid config value for resource ConfigResource(type=BROKER, name='1'): "


@pytest.fixture
async def broker_store(store: EmbeddedStore) -> EmbeddedStore:
    await create_permanent_paths(store)
    return store


async def change(
    store: EmbeddedStore,
    name: str,
    *changes: Change,
    config: BrokerConfig = CONFIG,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    configs = [
        Incremental.AlterableConfig(name=key, config_operation=operation, value=text)
        for operation, key, text in changes
    ]
    resource = Incremental.AlterConfigsResource(
        resource_type=4, resource_name=name, configs=configs
    )
    ctx = context(1, store=store, config=config)
    request = Incremental(resources=[resource], validate_only=validate_only)
    (result,) = (await incremental_alter_configs.handle(ctx, request)).responses
    return result.error_code, result.error_message


async def replace(store: EmbeddedStore, name: str, **entries: str) -> tuple[int, str | None]:
    request = m.AlterConfigsRequest
    configs = [
        request.AlterableConfig(name=key.replace("_", "."), value=text)
        for key, text in entries.items()
    ]
    resource = request.AlterConfigsResource(resource_type=4, resource_name=name, configs=configs)
    answer = await alter_configs.handle(
        context(2, store=store, config=CONFIG), request(resources=[resource])
    )
    return answer.responses[0].error_code, answer.responses[0].error_message


async def entries(store: EmbeddedStore, entity: str) -> dict[str, str]:
    return ConfigZnode.decode((await store.get(f"/config/brokers/{entity}"))[0])


async def test_znodes_and_notes_are_kafkas(broker_store: EmbeddedStore) -> None:
    assert await change(broker_store, "1", (SET, "log.retention.ms", "5")) == (0, None)
    assert await change(broker_store, "", (SET, "log.retention.ms", "6")) == (0, None)
    assert await change(broker_store, "1", (APPEND, "log.cleanup.policy", "compact")) == (0, None)
    data, _ = await broker_store.get("/config/brokers/<default>")
    assert data == b'{"version":1,"config":{"log.retention.ms":"6"}}'
    assert await entries(broker_store, "1") == {
        "log.retention.ms": "5",
        "log.cleanup.policy": "delete,compact",
    }
    names = sorted(await broker_store.children("/config/changes"))
    notes = [(await broker_store.get(f"/config/changes/{name}"))[0] for name in names]
    assert notes == [
        b'{"version":2,"entity_path":"brokers/1"}',
        b'{"version":2,"entity_path":"brokers/<default>"}',
        b'{"version":2,"entity_path":"brokers/1"}',
    ]
    assert await replace(broker_store, "1", log_roll_ms="7") == (0, None)
    assert await entries(broker_store, "1") == {"log.roll.ms": "7"}


async def test_validation_alone_writes_nothing(broker_store: EmbeddedStore) -> None:
    change_it = (SET, "log.retention.ms", "5")
    assert await change(broker_store, "1", change_it, validate_only=True) == (0, None)
    assert await broker_store.children("/config/brokers") == []
    assert await broker_store.children("/config/changes") == []


@pytest.mark.parametrize(
    ("name", "made", "text"),
    [
        ("2", (SET, "log.roll.ms", "1"), "Unexpected broker id, expected 1, but received 2"),
        ("x", (SET, "log.roll.ms", "1"), "Broker id must be an integer, but it is: x"),
        ("1", (SET, "log.roll.ms", "0"), f"{RESOURCE}requirement failed: log.roll.ms must be "
         "greater than or equal to 1"),
        ("1", (SET, "node.id", "x"), None),
        ("1", (APPEND, "log.roll.ms", "1"), "Config value append is not allowed for config key: "
         "log.roll.ms"),
        ("1", (APPEND, "nobody.knows", "1"), "nobody.knows is not a list of this broker's configs"),
        ("1", (SET, "sasl.jaas.config", "x"), f"{RESOURCE}Password encoder secret not configured"),
    ],
)  # fmt: skip
async def test_refusals(
    broker_store: EmbeddedStore, name: str, made: Change, text: str | None
) -> None:
    code = 0 if text is None else 42
    assert await change(broker_store, name, made) == (code, text)


async def test_passwords_are_refused_with_a_secret_too(broker_store: EmbeddedStore) -> None:
    config = BrokerConfig.from_properties(BASE | {"password.encoder.secret": "s"})
    code, text = await change(broker_store, "1", (SET, "sasl.jaas.config", "x"), config=config)
    assert code == 42
    assert text is not None and "this broker keeps no passwords in the store" in text
    assert await broker_store.children("/config/brokers") == []


async def test_what_was_in_the_store_before_does_not_stop_a_change(
    broker_store: EmbeddedStore,
) -> None:
    before = {"listener.name.a.sasl.jaas.config": "encoded", "advertised.listeners": "A://b:1"}
    await broker_store.create("/config/brokers/1", ConfigZnode.encode(before | {"broker.id": "7"}))
    assert await change(broker_store, "1", (SET, "log.roll.ms", "5")) == (0, None)
    assert await entries(broker_store, "1") == before | {"log.roll.ms": "5"}
    changed = (SET, "advertised.listeners", "PLAINTEXT://c:1")
    code, text = await change(broker_store, "1", changed)
    assert code == 42 and text is not None and "while this broker runs" in text


class Follower:
    """A running broker's config, and what it was told."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.seen: list[tuple[int, int]] = []
        self.live = LiveConfig(CONFIG, 1, self._changed)
        self.changes = ConfigChanges(
            store, SystemClock(), lambda _topic, _configs: None, self.live, self._no_quota
        )

    def _changed(self, old: BrokerConfig, new: BrokerConfig) -> None:
        self.seen.append((old.integer("log.roll.ms"), new.integer("log.roll.ms")))

    async def _no_quota(self, _path: str) -> None:
        return None


async def test_notes_make_a_broker_follow(broker_store: EmbeddedStore) -> None:
    week_ms = 604_800_000
    follower = Follower(broker_store)
    await change(broker_store, "", (SET, "log.roll.ms", "10"))
    await follower.changes.start()
    await change(broker_store, "1", (SET, "log.roll.ms", "20"))
    await broker_store.create(
        znodes.ConfigChangeZnode.path(),
        znodes.ConfigChangeZnode.encode(znodes.ConfigChange("brokers/2")),
        mode=CreateMode.PERSISTENT_SEQUENTIAL,
    )
    await change(broker_store, "1", (DELETE, "log.roll.ms", None))
    await until(lambda: follower.seen[-1][1] == 10)
    await change(broker_store, "", (DELETE, "log.roll.ms", None))
    await until(lambda: follower.seen[-1][1] == week_ms)
    # The value is read when its note is taken: a step in between may never be seen.
    assert follower.seen in (
        [(week_ms, 10), (10, 20), (20, 10), (10, week_ms)],
        [(week_ms, 10), (10, week_ms)],
    )
    changes = len(follower.seen)
    follower.changes.on_new_session()
    await change(broker_store, "1", (SET, "log.roll.ms", "30"))
    await until(lambda: follower.seen[-1][1] == 30)
    assert follower.seen[changes:] == [(week_ms, 30)], "the same values again are no change"
    await follower.changes.stop()


def test_garbage_in_the_store_leaves_the_config_as_it_is() -> None:
    calls: list[Any] = []
    live = LiveConfig(CONFIG, 1, lambda old, new: calls.append((old, new)))
    assert [live.concerns(entity) for entity in ("1", "<default>", "2", "")] == [
        True, True, False, False,
    ]  # fmt: skip
    live.take("1", {"log.roll.ms": "x", "broker.id": "3", "listeners": "A://b:1"})
    live.take("<default>", {"log.roll.ms": "0"})
    assert calls == []
    assert live.current is CONFIG or live.current.dynamic_broker == {}


async def test_topics_get_new_defaults_under_their_own(broker_store: EmbeddedStore) -> None:
    settings = TopicSettings(CONFIG, broker_store)
    settings.set("own", {"retention.ms": "5"})
    settings.set("plain", {})
    settings.reconfigure(CONFIG.proposed({"log.retention.ms": "9", "log.roll.ms": "8"}, {}))
    assert [settings.of(topic).retention_ms for topic in ("own", "plain", "other")] == [5, 9, 9]
    assert settings.of("own").segment_ms == 8
    assert settings.of("plain") is settings.of("other")
    settings.set("own", {})
    settings.reconfigure(CONFIG)
    assert settings.of("own") is settings.of("plain")


async def test_rates_are_described_as_kafka_does(broker_store: EmbeddedStore) -> None:
    """Read-only by KafkaConfig's list, though they can only be set at run time."""
    rate = "leader.replication.throttled.rate"
    config = CONFIG.proposed({"log.roll.ms": "5"}, {rate: "7"})
    request = m.DescribeConfigsRequest
    resources = [
        request.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=keys)
        for keys in ([rate], ["log.roll.ms"])
    ]
    resources.append(
        request.DescribeConfigsResource(resource_type=4, resource_name="", configuration_keys=None)
    )
    answer = await describe_configs.handle(
        context(3, store=broker_store, config=config), request(resources=resources)
    )
    shown = [
        [(c.name, c.value, c.config_source, c.read_only, c.is_sensitive) for c in result.configs]
        for result in answer.results
    ]
    assert shown == [
        [(rate, "7", 2, True, False)],
        [("log.roll.ms", "5", 3, False, False)],
        [("log.roll.ms", "5", 3, False, False)],
    ]
