"""What `ottla get-offsets` is asked for."""

from __future__ import annotations

import pytest

from ottla.cli.data.get_offsets import OffsetsFailed, Rule, parse_names, parse_rules, parse_time
from ottla.cli.include_list import InvalidPattern


def taken(rules: list[Rule], topic: str) -> list[int]:
    return [
        partition
        for partition in range(8)
        if any(rule.takes_topic(topic) and rule.takes_partition(partition) for rule in rules)
    ]


def test_names_and_partitions() -> None:
    assert taken([parse_names("a,b.*", "1,3")], "bc") == [1, 3]
    assert taken([parse_names("a,b.*", "1,3,")], "c") == []
    assert taken([parse_names(None, None)], "c") == list(range(8))
    for text in ("x", ",1", "1.5", "99999999999"):
        with pytest.raises(OffsetsFailed, match=f"partition ids, but received: {text}"):
            parse_names(None, text)


def test_patterns_of_both() -> None:
    rules = parse_rules("a:1,b:0-3,c,d:5-,e:-3,:7")
    assert taken(rules, "a") == [1, 7]
    assert taken(rules, "b") == [0, 1, 2, 7]
    assert taken(rules, "c") == list(range(8))
    assert taken(rules, "d") == [5, 6, 7]
    assert taken(rules, "e") == [0, 1, 2, 7]
    assert taken(rules, "f") == [7]
    with pytest.raises(OffsetsFailed, match="Invalid rule specification: a:b"):
        parse_rules("c,a:b")
    with pytest.raises(OffsetsFailed, match='For input string: "99999999999"'):
        parse_rules("a:99999999999")
    with pytest.raises(InvalidPattern):
        parse_rules("a(:1")


def test_times() -> None:
    assert [parse_time(word) for word in ("latest", "earliest", "max-timestamp")] == [-1, -2, -3]
    assert [parse_time(word) for word in ("earliest-local", "latest-tiered")] == [-4, -5]
    assert (parse_time("-1"), parse_time("1700000000000")) == (-1, 1700000000000)
    with pytest.raises(OffsetsFailed, match=r"Malformed time argument now\. Please use -1"):
        parse_time("now")
