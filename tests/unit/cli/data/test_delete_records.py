"""The file of `ottla delete-records`."""

from __future__ import annotations

import json

import pytest

from ottla.cli.data.delete_records import BadOffsets, parse_offsets
from ottla.types import TopicPartition

ENTRY = {"topic": "t", "partition": 0, "offset": 42}


def test_offsets() -> None:
    other = {"topic": "u", "partition": 3, "offset": -1}
    expected = {TopicPartition("t", 0): 42, TopicPartition("u", 3): -1}
    assert parse_offsets(json.dumps({"version": 1, "partitions": [ENTRY, other]})) == expected
    assert parse_offsets(json.dumps({"partitions": [ENTRY, other]})) == expected


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"version": 2, "partitions": []}, "Not supported version field value 2"),
        ({"version": True, "partitions": []}, "Not supported version field value true"),
        ({}, "Missing partitions field"),
        ([], "Expected a JSON object"),
        ({"partitions": {}}, "not a list"),
        ({"partitions": [7]}, '"topic" of 7 is not text'),
        ({"partitions": [ENTRY | {"topic": 1}]}, '"topic" of .* is not text'),
        ({"partitions": [ENTRY | {"partition": "0"}]}, '"partition" of .* is not a whole number'),
        ({"partitions": [ENTRY | {"offset": True}]}, '"offset" of .* is not a whole number'),
        ({"partitions": [ENTRY | {"partition": 2**31}]}, '"partition" of .* is out of range'),
        ({"partitions": [ENTRY | {"offset": 2**63}]}, '"offset" of .* is out of range'),
        ({"partitions": [ENTRY, ENTRY, ENTRY]}, "duplicate topic partitions: t-0$"),
    ],
)
def test_files_that_are_refused(value: object, said: str) -> None:
    with pytest.raises(BadOffsets, match=said):
        parse_offsets(json.dumps(value))


def test_what_is_no_json() -> None:
    for text in ("", "{", "[" * 100_000):
        with pytest.raises(BadOffsets, match="The input string is not a valid JSON"):
            parse_offsets(text)
