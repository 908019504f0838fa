"""Placement: Kafka's known answers, and what must hold for any cluster."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode, KafkaError
from ottla.topics.assignment import (
    AdminOperationError,
    BrokerMetadata,
    RackAwareMode,
    assign_replicas,
    rack_alternated,
    select_brokers,
)


def plain(*ids: int) -> list[BrokerMetadata]:
    return [BrokerMetadata(id) for id in ids]


def racked(racks: dict[int, str]) -> list[BrokerMetadata]:
    return [BrokerMetadata(id, rack) for id, rack in racks.items()]


def seeded() -> random.Random:
    return random.Random(7)


def test_five_brokers_ten_partitions() -> None:
    assert assign_replicas(
        plain(0, 1, 2, 3, 4), 10, 3, random=seeded(), start_index=0, shift=0
    ) == {
        0: [0, 1, 2],
        1: [1, 2, 3],
        2: [2, 3, 4],
        3: [3, 4, 0],
        4: [4, 0, 1],
        5: [0, 2, 3],
        6: [1, 3, 4],
        7: [2, 4, 0],
        8: [3, 0, 1],
        9: [4, 1, 2],
    }


def test_three_brokers_six_partitions() -> None:
    assert assign_replicas(plain(0, 1, 2), 6, 3, random=seeded(), start_index=2, shift=0) == {
        0: [2, 0, 1],
        1: [0, 1, 2],
        2: [1, 2, 0],
        3: [2, 1, 0],
        4: [0, 2, 1],
        5: [1, 0, 2],
    }


def test_ids_need_not_be_dense() -> None:
    placed = assign_replicas(plain(2, 5, 8), 1, 3, random=seeded(), start_index=2, shift=0)
    assert placed == {0: [8, 2, 5]}


def test_a_fixed_start_is_also_the_shift() -> None:
    fixed = assign_replicas(plain(0, 1, 2, 3), 4, 2, random=seeded(), fixed_start_index=2)
    pinned = assign_replicas(plain(0, 1, 2, 3), 4, 2, random=seeded(), start_index=2, shift=2)
    assert fixed == pinned


def test_new_partitions_continue_the_pattern() -> None:
    brokers = plain(0, 1, 2, 3, 4)
    whole = assign_replicas(brokers, 10, 3, random=seeded(), start_index=0, shift=0)
    # Partition 5 starts a new round: the shift grows right there.
    rest = assign_replicas(
        brokers, 5, 3, random=seeded(), fixed_start_index=0, start_partition_id=5
    )
    assert rest == {p: whole[p] for p in range(5, 10)}


def test_racks_alternate() -> None:
    racks = {id: f"rack{id // 3 + 1}" for id in range(9)}
    assert rack_alternated(racks) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    assert rack_alternated({0: "b", 1: "a", 2: "a", 3: "a"}) == [1, 0, 2, 3]


def test_kafkas_example_with_three_racks() -> None:
    """The example in AdminUtils: six brokers on three racks."""
    racks = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}
    assert rack_alternated(racks) == [0, 3, 1, 5, 4, 2]
    placed = assign_replicas(racked(racks), 7, 3, random=seeded(), start_index=0, shift=0)
    assert placed == {
        0: [0, 3, 1],
        1: [3, 1, 5],
        2: [1, 5, 4],
        3: [5, 4, 2],
        4: [4, 2, 0],
        5: [2, 0, 3],
        6: [0, 4, 2],
    }


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "text"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (-5, 0, ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
        (
            1,
            4,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
    ],
)
def test_errors(partitions: int, factor: int, code: ErrorCode, text: str) -> None:
    with pytest.raises(KafkaError) as caught:
        assign_replicas(plain(0, 1, 2), partitions, factor, random=seeded())
    assert (caught.value.code, caught.value.message) == (code, text)


def test_racks_on_some_brokers_are_an_error_without_a_message_for_clients() -> None:
    mixed = [BrokerMetadata(0, "a"), BrokerMetadata(1)]
    with pytest.raises(AdminOperationError) as caught:
        assign_replicas(mixed, 1, 1, random=seeded())
    assert str(caught.value) == (
        "Not all brokers have rack information for replica rack aware assignment."
    )
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert caught.value.message is None


def test_modes() -> None:
    mixed = [BrokerMetadata(2, "a"), BrokerMetadata(1)]
    with pytest.raises(AdminOperationError, match="Add --disable-rack-aware in command line"):
        select_brokers(mixed)
    assert select_brokers(mixed, RackAwareMode.SAFE) == plain(1, 2)
    assert select_brokers(mixed, RackAwareMode.DISABLED) == plain(1, 2)
    whole = [BrokerMetadata(2, "a"), BrokerMetadata(1, "b")]
    for mode in (RackAwareMode.ENFORCED, RackAwareMode.SAFE):
        assert select_brokers(whole, mode) == [BrokerMetadata(1, "b"), BrokerMetadata(2, "a")]
    assert select_brokers(whole, RackAwareMode.DISABLED) == plain(1, 2)
    assert select_brokers(mixed, only=[2]) == [BrokerMetadata(2, "a")]
    assert select_brokers(plain(3, 1)) == plain(1, 3)


def as_kafka_walks(
    arranged: list[int], racks: dict[int, str], partitions: int, factor: int, start: int, shift: int
) -> dict[int, list[int]]:
    """The walk with racks, step by step and without any shortcut."""
    count, rack_count = len(arranged), len(set(racks.values()))
    result = {}
    for partition in range(partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        chosen, k = [arranged[first]], 0
        while len(chosen) < factor:
            step = 1 + (shift * rack_count + k) % (count - 1)
            broker = arranged[(first + step) % count]
            used = {racks[b] for b in chosen}
            if (racks[broker] not in used or len(used) == rack_count) and broker not in chosen:
                chosen.append(broker)
            k += 1
        result[partition] = chosen
    return result


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_shortcuts_change_nothing(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    racks = {id * 3: data.draw(st.sampled_from("abcd")) for id in range(count)}
    factor = data.draw(st.integers(1, count))
    start, shift = data.draw(st.integers(0, count - 1)), data.draw(st.integers(0, count - 1))
    partitions = data.draw(st.integers(1, 40))
    placed = assign_replicas(
        racked(racks), partitions, factor, random=seeded(), start_index=start, shift=shift
    )
    walked = as_kafka_walks(rack_alternated(racks), racks, partitions, factor, start, shift)
    assert placed == walked


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_what_must_hold_for_any_cluster(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    factor = data.draw(st.integers(1, count))
    partitions = data.draw(st.integers(1, 60))
    with_racks = data.draw(st.booleans())
    brokers = [
        BrokerMetadata(id, data.draw(st.sampled_from("abc")) if with_racks else None)
        for id in range(count)
    ]
    draw = random.Random(data.draw(st.integers()))
    placed = assign_replicas(brokers, partitions, factor, random=draw)
    assert list(placed) == list(range(partitions))
    rack_of = dict(brokers)
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        if with_racks:
            spread = len({rack_of[broker] for broker in replicas})
            assert spread == min(factor, len(set(rack_of.values())))
    leaders = Counter({broker.id: 0 for broker in brokers})
    leaders.update(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1


def test_lists_are_not_shared() -> None:
    placed = assign_replicas(racked({0: "a", 1: "b"}), 8, 2, random=seeded())
    assert len({id(replicas) for replicas in placed.values()}) == 8


@pytest.mark.parametrize("racks", [30, 0])
def test_200_000_partitions_on_300_brokers_are_spread_evenly(racks: int) -> None:
    """How long that takes is a row of `ottla bench topics`."""
    brokers = [BrokerMetadata(id, f"rack{id % racks}" if racks else None) for id in range(300)]
    placed = assign_replicas(brokers, 200_000, 3, random=seeded())
    assert sorted(placed) == list(range(200_000))
    assert all(len(set(replicas)) == 3 for replicas in placed.values())
    if racks:
        assert all(len({id % racks for id in replicas}) == 3 for replicas in placed.values())
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.values()) <= 1
