"""Changes to list configs, and how large configs may become."""

from __future__ import annotations

import pytest

from ottla.broker.admin.configs import Change, apply_changes, store_with_note
from ottla.config.definitions import ConfigDef
from ottla.config.resources import ConfigOperation
from ottla.errors import ErrorCode, KafkaError
from ottla.topics.configs import topic_definitions
from ottla.zk.embedded import EmbeddedStore

NAME = "leader.replication.throttled.replicas"


def _definition(name: str) -> ConfigDef:
    return topic_definitions()[name]


def _changed(present: str, operation: ConfigOperation, value: str) -> str:
    return apply_changes({NAME: present}, [Change(operation, NAME, value)], _definition)[NAME]


@pytest.mark.parametrize(
    ("present", "value", "left"),
    [
        ("1:1,2:2,3:3", "2:2", "1:1,3:3"),
        ("1:1,1:1,2:2,1:1", "1:1,1:1", "2:2,1:1"),
        ("1:1", "2:2,1:1,1:1", ""),
        ("1:1,2:2", "", "1:1,2:2"),
    ],
)
def test_each_takes_away_the_first_that_is_like_it(present: str, value: str, left: str) -> None:
    assert _changed(present, ConfigOperation.SUBTRACT, value) == left


def test_long_lists_are_subtracted_in_one_pass() -> None:
    items = [f"{number}:1" for number in range(200_000)]
    # Item by item it would be twenty thousand million comparisons.
    assert _changed(",".join(items), ConfigOperation.SUBTRACT, ",".join(reversed(items))) == ""


@pytest.mark.parametrize(
    ("configs", "text"),
    [
        ({NAME: "1:1," * 10_000}, f"The value of {NAME} is longer than 32767 bytes."),
        ({f"k{number}": "v" * 32_000 for number in range(40)}, "The configs have 1"),
    ],
)
async def test_configs_that_cannot_be_stored_or_shown_are_refused_before_they_are_written(
    store: EmbeddedStore, configs: dict[str, str], text: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        await store_with_note(store, "topics", "t", configs)
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    assert str(caught.value).startswith(text)
    assert await store.exists("/config/topics/t") is None
