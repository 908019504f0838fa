"""DescribeConfigs of the same again and again."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.handlers import describe_configs
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.config.broker import BrokerConfig
from ottla.errors import ErrorCode
from ottla.wire import messages as m
from ottla.zk.embedded import EmbeddedStore
from tests.support.broker.cluster_messages import context, partition, update

Resource = m.DescribeConfigsRequest.DescribeConfigsResource
TOPIC, BROKER = 2, 4


class CountingConfig(BrokerConfig):
    described = 0

    def describe(self, *arguments: Any) -> Any:
        type(self).described += 1
        return super().describe(*arguments)


@pytest.fixture
def ctx(store: EmbeddedStore) -> Any:
    CountingConfig.described = 0
    cache = MetadataCache()
    cache.update(update({"t": [partition(0)]}))
    config = CountingConfig.from_properties({"zookeeper.connect": "x:1", "broker.id": "1"})
    return context(4, cache=cache, store=store, config=config)


async def _ask(ctx: Any, *resources: Resource) -> list[tuple[str, int, int]]:
    answer = await describe_configs.handle(ctx, m.DescribeConfigsRequest(resources=list(resources)))
    return [(each.resource_name, each.error_code, len(each.configs)) for each in answer.results]


def _of(kind: int, name: str, *keys: str) -> Resource:
    return Resource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)


async def test_equal_entries_are_answered_once(ctx: Any) -> None:
    (name, code, count), *others = await _ask(ctx, *[_of(BROKER, "1")] * 3000)
    assert (name, code, others) == ("1", 0, [])
    assert count > 100
    assert CountingConfig.described == 1


async def test_a_broker_is_described_once_however_it_is_spelt_and_whatever_is_asked_of_it(
    ctx: Any,
) -> None:
    answered = await _ask(
        ctx,
        _of(BROKER, "1"),
        _of(BROKER, "01"),
        _of(BROKER, "1", "log.dirs"),
        _of(BROKER, "1", "log.dirs", "no.such.key"),
    )
    assert [(name, code) for name, code, _ in answered] == [("1", 0), ("01", 0), ("1", 0), ("1", 0)]
    assert [count for _, _, count in answered[2:]] == [1, 1]
    assert CountingConfig.described == 1


async def test_a_topic_with_and_without_keys(ctx: Any) -> None:
    answered = await _ask(
        ctx, _of(TOPIC, "t"), _of(TOPIC, "t", "retention.ms"), _of(TOPIC, "t", "none")
    )
    assert [code for _, code, _ in answered] == [0, 0, 0]
    assert answered[0][2] > 20
    assert [count for _, _, count in answered[1:]] == [1, 0]


@pytest.mark.parametrize("name", ["x", "9" * 5000, "-", "2"])
async def test_brokers_that_are_not_this_one(ctx: Any, name: str) -> None:
    assert await _ask(ctx, _of(BROKER, name)) == [(name, ErrorCode.INVALID_REQUEST, 0)]
