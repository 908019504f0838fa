from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.console.api import topics
from ottla.console.picture import Picture, picture_of
from ottla.console.web.failures import ApiError
from ottla.errors import ErrorCode, KafkaError
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m


def _picture(**given: list[tuple[int, list[int], list[int]]]) -> Picture:
    """Topics by name, each a list of (leader, replicas, in-sync replicas)."""
    answer = m.MetadataResponse
    found = [
        answer.MetadataResponseTopic(
            name=name,
            topic_id=ZERO_TOPIC_ID,
            is_internal=name.startswith("__"),
            partitions=[
                answer.MetadataResponsePartition(
                    partition_index=i,
                    leader_id=leader,
                    leader_epoch=0,
                    replica_nodes=replicas,
                    isr_nodes=in_sync,
                    offline_replicas=[],
                )
                for i, (leader, replicas, in_sync) in enumerate(partitions)
            ],
        )
        for name, partitions in given.items()
    ]
    broker = answer.MetadataResponseBroker(node_id=1, host="h", port=1, rack=None)
    return picture_of(m.MetadataResponse(brokers=[broker], topics=found, controller_id=1))


def test_a_summary_counts_what_is_wrong() -> None:
    taken = _picture(
        t=[(1, [1, 2], [1]), (-1, [2, 3], []), (2, [2, 4], [4, 2])], __in=[(1, [1], [1])]
    )
    found = topics.summaries(taken)
    assert found["t"] == topics.TopicSummary("t", False, 3, 2, 2, 1, [1, 2, 3, 4])
    assert found["__in"].internal
    assert found["__in"].under_replicated == 0


def test_the_replication_factor_is_that_of_most_partitions() -> None:
    taken = _picture(t=[(1, [1], [1]), (1, [1, 2], [1, 2]), (1, [1, 2], [1, 2])])
    assert topics.summaries(taken)["t"].replication_factor == 2


def test_after_the_first_time_only_changes_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    first = _picture(a=[(1, [1], [1])], b=[(1, [1], [1])])
    same = _picture(a=[(1, [1], [1])], b=[(1, [1], [1])])
    later = _picture(a=[(1, [1], [1]), (1, [1], [1])], c=[(1, [1], [1])])
    pictures = iter([first, first, same, later])

    async def next_picture(_access: Any, _age_s: float) -> Picture:
        return next(pictures)

    monkeypatch.setattr(topics, "picture", next_picture)
    source = topics.TopicsSource(SimpleNamespace(access=None))  # type: ignore[arg-type]  # no more is used

    async def run() -> list[topics.TopicsNews | None]:
        return [await source.poll() for _ in range(4)]

    whole, again, unchanged, changed = asyncio.run(run())
    assert whole is not None
    assert [row.name for row in whole.topics] == ["a", "b"]
    assert again is None
    assert unchanged is None
    assert changed is not None
    assert [row.name for row in changed.topics] == ["a", "c"]
    assert changed.gone == ["b"]
    newcomer = source.whole()
    assert newcomer is not None
    assert [row.name for row in newcomer.topics] == ["a", "c"]


@pytest.mark.parametrize(
    ("code", "field"),
    [
        (ErrorCode.TOPIC_ALREADY_EXISTS, "name"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "name"),
        (ErrorCode.INVALID_PARTITIONS, "partitions"),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "replication_factor"),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assignment"),
        (ErrorCode.POLICY_VIOLATION, None),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None),
    ],
)
def test_an_error_names_its_field(code: ErrorCode, field: str | None) -> None:
    failure = topics.at_field(KafkaError(code, "words"))
    assert isinstance(failure, ApiError)
    assert (failure.field, str(failure)) == (field, "words")


def test_a_config_at_fault_is_found_in_the_words() -> None:
    configs = {"segment.ms": "1", "segment.ms.more": "2", "": "3"}
    words = "Invalid value x for configuration segment.ms.more: Not a number"
    assert topics.config_field(words, configs) == "configs.segment.ms.more"
    assert topics.config_field("something else", configs) == "configs"
