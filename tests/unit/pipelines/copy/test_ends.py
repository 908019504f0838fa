"""What is known of the two topics of a copy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines.copy import ends
from ottla.pipelines.copy.ends import Endpoint, Topic
from ottla.wire.columnar_encode import DEFAULT_BATCH_BYTES


@pytest.fixture
def topic() -> Iterator[Topic]:
    made = Topic(Endpoint("localhost:1", "t").options("read_uncommitted"), "t")
    yield made
    made.close()


class Item:
    def __init__(self, name: str, value: str | None) -> None:
        self.name, self.value = name, value


@pytest.mark.parametrize(
    ("configs", "most"),
    [
        ({"max.message.bytes": "1048588", "segment.bytes": "1073741824"}, DEFAULT_BATCH_BYTES),
        ({"max.message.bytes": "1048588", "segment.bytes": "100000"}, 100_000 - 1_024),
        ({"segment.bytes": "1073741824", "max.message.bytes": "50000"}, 50_000 - 1_024),
        ({"segment.bytes": "14", "max.message.bytes": "50000"}, 1),
        ({"max.message.bytes": None, "retention.ms": "5"}, DEFAULT_BATCH_BYTES),
        ({"cleanup.policy": "compact,delete"}, DEFAULT_BATCH_BYTES),
        ({"cleanup.policy": "delete"}, DEFAULT_BATCH_BYTES),
        (KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), DEFAULT_BATCH_BYTES),
    ],
)
def test_batches_fit_the_topic_and_its_segments(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, configs: Any, most: int
) -> None:
    class Admin:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        async def describe_configs(self, resources: list[Any]) -> dict[Any, Any]:
            if isinstance(configs, KafkaError):
                return {resources[0]: configs}
            return {resources[0]: [Item(*one) for one in configs.items()]}

    monkeypatch.setattr(ends, "Admin", Admin)
    # Records may go from where nobody may see whether they do.
    policy = "compact" if isinstance(configs, KafkaError) else configs.get("cleanup.policy", "")
    assert topic.compacts() is policy.startswith("compact")
    assert topic.batch_bytes() == most
