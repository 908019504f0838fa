"""Names of partitions' folders, and names that no folder can have."""

from __future__ import annotations

import errno

import pytest

from ottla.errors import ErrorCode, KafkaError
from ottla.storage.manager.folder_names import (
    check,
    deletion_name,
    future_name,
    is_deletion_name,
    is_stray_name,
    objection,
    parse_folder_name,
    parse_future_name,
    refused_name,
    stray_name,
)
from ottla.types import TopicPartition


def test_folder_names() -> None:
    assert parse_folder_name("a-b-3") == TopicPartition("a-b", 3)
    long = deletion_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(long) <= 255 and is_deletion_name(long)
    assert not is_deletion_name("topic-delete-0")
    aside = stray_name(TopicPartition("t" * 249, 12), "0" * 32)
    assert len(aside) <= 255 and is_stray_name(aside) and not is_deletion_name(aside)
    assert not is_stray_name("topic-stray-0") and not is_stray_name("topic.x-stray")
    copy = future_name(TopicPartition("a-b", 3), "0" * 32)
    assert parse_future_name(copy) == TopicPartition("a-b", 3)


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "-3",
        "a-",
        "a-x",
        "a-٣",
        "a b-0",
        "x\ny-0",
        "ä-0",
        "..-0",
        "a-00",
        "a-01",
        "a-2147483648",
    ],
)
def test_names_of_no_partition(name: str) -> None:
    assert parse_folder_name(name) is None
    assert parse_folder_name(f"{'n' * 250}-0") is None


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("../../x", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("a/b", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x\ny", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("x\0y", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("n" * 300, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
        # 249 characters are legal, but not with a number of six digits behind them.
        ("n" * 249, 100_000, ErrorCode.INVALID_TOPIC_EXCEPTION),
        # t--1 is where partition 1 of topic `t-` lives.
        ("t", -1, ErrorCode.INVALID_REQUEST),
        ("t", 2**31, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_have_no_folder(topic: str, partition: int, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        check(TopicPartition(topic, partition))
    assert raised.value.code is code
    refusal = objection(TopicPartition(topic, partition))
    assert refusal is not None and refusal.code is code


def test_every_other_name_comes_back_from_its_folder() -> None:
    for tp in (TopicPartition("n" * 249, 99_999), TopicPartition("a.b_c-d", 2**31 - 1)):
        assert objection(tp) is None
        assert parse_folder_name(str(tp)) == tp


def test_whether_the_name_or_the_disk_is_to_blame() -> None:
    tp = TopicPartition("t", 0)
    refusal = refused_name(tp, OSError(errno.ENAMETOOLONG, "File name too long"))
    assert refusal is not None and refusal.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert refused_name(tp, OSError(errno.ENOSPC, "No space left on device")) is None
