"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and the notes that follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ottla.broker.admin.config_changes import ConfigChanges
from ottla.broker.admin.configs import Change, apply_changes
from ottla.broker.admin.live_config import LiveConfig
from ottla.broker.admin.topic_configs import topic_definition
from ottla.broker.handlers import alter_configs, describe_configs, incremental_alter_configs
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.membership.registration import create_permanent_paths
from ottla.config.broker import BrokerConfig
from ottla.config.resources import ConfigOperation, ResourceType
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata import change_notes, znodes
from ottla.metadata.store import CreateMode
from ottla.runtime import SystemClock
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import context, partition, update
from tests.support.zk.polling import until

Describe = m.DescribeConfigsRequest.DescribeConfigsResource
TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
CONFIG = BrokerConfig.from_properties(
    {"zookeeper.connect": "x:1", "broker.id": "1", "log.segment.bytes": "1000"}
)


@dataclass
class Here:
    store: EmbeddedStore
    config: BrokerConfig = CONFIG

    def context(self, version: int) -> Any:
        cache = MetadataCache()
        cache.update(update({"t": [partition(0)]}))
        return context(version, cache=cache, store=self.store, config=self.config)

    def changes(self, on_topic_config: Any, live: LiveConfig | None = None) -> ConfigChanges:
        async def no_quota(_path: str) -> None:
            return None

        live = live or LiveConfig(CONFIG, 1, lambda _old, _new: None)
        return ConfigChanges(self.store, SystemClock(), on_topic_config, live, no_quota)

    async def topic_config(self) -> dict[str, str]:
        return znodes.ConfigZnode.decode((await self.store.get("/config/topics/t"))[0])

    async def notes(self) -> list[bytes | None]:
        names = sorted(await self.store.children("/config/changes"))
        return [(await self.store.get(f"/config/changes/{name}"))[0] for name in names]


@pytest.fixture
async def here(store: EmbeddedStore) -> Here:
    await create_permanent_paths(store)
    await store.create("/brokers/topics/t")
    await store.create("/config/topics/t", znodes.ConfigZnode.encode({"retention.ms": "1000"}))
    return Here(store)


async def _describe(here: Here, resource: Describe, version: int = 4, **flags: bool) -> Any:
    request = m.DescribeConfigsRequest(resources=[resource], **flags)
    answer = await describe_configs.handle(here.context(version), request)
    assert answer.encode(version)
    return answer.results[0]


async def test_describe_topic(here: Here) -> None:
    for version in range(5):
        result = await _describe(
            here,
            Describe(resource_type=TOPIC, resource_name="t", configuration_keys=None),
            version,
            include_synonyms=version >= 1,
            include_documentation=version >= 3,
        )
        configs = {config.name: config for config in result.configs}
        own, inherited = configs["retention.ms"], configs["segment.bytes"]
        assert (own.value, own.config_source, own.is_default) == ("1000", 1, False)
        assert (inherited.value, inherited.config_source) == ("1000", 4)
        assert configs["cleanup.policy"].is_default == (version == 0)
        if version >= 1:
            assert [(s.name, s.source) for s in own.synonyms][:1] == [("retention.ms", 1)]
        assert bool(own.documentation) == (version >= 3)


async def test_describe_named_keys_only(here: Here) -> None:
    result = await _describe(
        here,
        Describe(resource_type=TOPIC, resource_name="t", configuration_keys=["segment.bytes"]),
    )
    assert [config.name for config in result.configs] == ["segment.bytes"]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "unknown", 3, ""),
        (TOPIC, "..", 17, 'Topic name cannot be "." or ".."'),
        (
            BROKER,
            "2",
            42,
            "Unexpected broker id, expected 1 or empty string, but received 2",
        ),
        (BROKER, "two", 42, "Broker id must be an integer, but it is: two"),
        (77, "x", 42, ErrorCode.INVALID_REQUEST.text),
    ],
)
async def test_describe_refusals(
    here: Here, kind: int, name: str, code: int, message: str | None
) -> None:
    result = await _describe(here, Describe(resource_type=kind, resource_name=name))
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


async def test_describe_broker(here: Here) -> None:
    result = await _describe(here, Describe(resource_type=BROKER, resource_name="1"))
    configs = {config.name: config for config in result.configs}
    assert (configs["log.segment.bytes"].value, configs["log.segment.bytes"].config_source) == (
        "1000",
        4,
    )
    assert configs["broker.id"].read_only
    defaults = await _describe(here, Describe(resource_type=BROKER, resource_name=""))
    assert (defaults.error_code, defaults.configs) == (0, [])


async def _increment(here: Here, *changes: Change, topic: str = "t", **flags: bool) -> Any:
    resource = m.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=[
            m.IncrementalAlterConfigsRequest.AlterableConfig(
                name=change.name, config_operation=change.operation, value=change.value
            )
            for change in changes
        ],
    )
    request = m.IncrementalAlterConfigsRequest(resources=[resource], **flags)
    answer = await incremental_alter_configs.handle(here.context(1), request)
    assert answer.encode(1)
    return answer.responses[0]


async def test_incremental_change_keeps_the_rest_and_leaves_a_note(here: Here) -> None:
    result = await _increment(here, Change(ConfigOperation.SET, "cleanup.policy", "compact"))
    assert (result.error_code, result.error_message) == (0, None)
    assert await here.topic_config() == {"retention.ms": "1000", "cleanup.policy": "compact"}
    assert await here.notes() == [b'{"version":2,"entity_path":"topics/t"}']


async def test_validate_only_changes_nothing(here: Here) -> None:
    change = Change(ConfigOperation.SET, "retention.ms", "5")
    assert (await _increment(here, change, validate_only=True)).error_code == 0
    assert await here.topic_config() == {"retention.ms": "1000"}
    assert await here.notes() == []


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            [Change(0, "retention.ms", "x")],
            42,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        ([Change(0, "nonsense", "x")], 40, "Unknown topic config name: nonsense"),
        ([Change(2, "nonsense", "x")], 40, "Unknown topic config name: nonsense"),
        ([Change(0, "retention.ms", None)], 42, "Null value not supported for : SET:retention.ms"),
        (
            [Change(0, "retention.ms", "1"), Change(1, "retention.ms", None)],
            42,
            "Error due to duplicate config keys : retention.ms",
        ),
        (
            [Change(2, "retention.ms", "1")],
            42,
            "Config value append is not allowed for config key: retention.ms",
        ),
        (
            [Change(3, "retention.ms", "1")],
            42,
            "Config value subtract is not allowed for config key: retention.ms",
        ),
        (
            [Change(9, "retention.ms", "1")],
            42,
            "Unknown operation type 9 for config key: retention.ms",
        ),
    ],
)
async def test_incremental_refusals(
    here: Here, changes: list[Change], code: int, message: str
) -> None:
    result = await _increment(here, *changes)
    assert (result.error_code, result.error_message) == (code, message)
    assert await here.notes() == []


async def test_unknown_topics_cannot_be_altered(here: Here) -> None:
    for name in ("unknown", "a/b", ""):
        result = await _increment(here, Change(0, "retention.ms", "1"), topic=name)
        assert (result.error_code, result.error_message) == (
            3,
            f"The topic '{name}' does not exist.",
        )


async def test_alter_replaces_everything(here: Here) -> None:
    resource = m.AlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[m.AlterConfigsRequest.AlterableConfig(name="flush.ms", value="7")],
    )
    broker = m.AlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, resource_name="2", configs=[]
    )
    answer = await alter_configs.handle(
        here.context(2), m.AlterConfigsRequest(resources=[resource, broker])
    )
    assert [(r.error_code, r.error_message) for r in answer.responses] == [
        (0, None),
        (42, "Unexpected broker id, expected 1, but received 2"),
    ]
    assert await here.topic_config() == {"flush.ms": "7"}


def test_lists_are_appended_to_and_subtracted_from() -> None:
    grown = apply_changes(
        {}, [Change(ConfigOperation.APPEND, "cleanup.policy", "compact")], topic_definition
    )
    assert grown == {"cleanup.policy": "delete,compact"}
    shrunk = apply_changes(
        grown, [Change(ConfigOperation.SUBTRACT, "cleanup.policy", "delete")], topic_definition
    )
    assert shrunk == {"cleanup.policy": "compact"}
    assert (
        apply_changes(
            shrunk, [Change(ConfigOperation.DELETE, "cleanup.policy", None)], topic_definition
        )
        == {}
    )
    with pytest.raises(KafkaError):
        apply_changes({}, [Change(ConfigOperation.APPEND, "nonsense", "x")], topic_definition)


class Taken:
    """Topic configs as they come."""

    def __init__(self) -> None:
        self.configs: list[tuple[str, dict[str, str]]] = []

    def __call__(self, topic: str, configs: dict[str, str]) -> None:
        self.configs.append((topic, configs))


async def test_changes_reach_the_broker_in_order(here: Here) -> None:
    await _increment(here, Change(0, "retention.ms", "1"))
    taken = Taken()
    changes = here.changes(taken)
    await changes.start()
    assert taken.configs == [("t", {"retention.ms": "1"})]
    for note in (b"garbage", b'{"version":2,"entity_path":"brokers/1"}'):
        await here.store.create(
            "/config/changes/config_change_", note, mode=CreateMode.PERSISTENT_SEQUENTIAL
        )
    await _increment(here, Change(0, "retention.ms", "2"))
    await until(lambda: len(taken.configs) > 1)
    assert taken.configs[1:] == [("t", {"retention.ms": "2"})]
    changes.on_new_session()
    # A new session takes every note again.
    await until(lambda: len(taken.configs) == 4)
    await changes.stop()


async def test_old_notes_are_removed(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    await _increment(here, Change(0, "retention.ms", "1"))
    taken = Taken()
    monkeypatch.setattr(change_notes, "CHANGE_EXPIRATION_MS", -1)
    changes = here.changes(taken)
    await changes.start()
    await changes.stop()
    assert len(taken.configs) == 1
    assert await here.notes() == []


async def test_no_config_is_written_for_a_topic_that_only_the_cache_knows(here: Here) -> None:
    """Nobody would ever remove it (found by the simulation)."""
    await here.store.delete("/config/topics/t")
    await here.store.delete("/brokers/topics/t")
    request = m.IncrementalAlterConfigsRequest
    answer = await incremental_alter_configs.handle(
        here.context(1),
        request(
            resources=[
                request.AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name="t",
                    configs=[
                        request.AlterableConfig(name="retention.ms", config_operation=0, value="5")
                    ],
                )
            ]
        ),
    )
    assert answer.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await here.store.exists("/config/topics/t") is None
    assert await here.notes() == []
