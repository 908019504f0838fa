"""When a wait for more writes is worth its time."""

from __future__ import annotations

from ottla.zk.server.gathering import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    WORTH_WAITING_FOR,
    Gathering,
)


def test_nobody_waits_for_clients_that_wait_for_their_answers():
    gathering = Gathering()
    assert not any(gathering.is_due(0) for _ in range(2 * LONGEST_PAUSE))


def test_a_wait_that_brings_enough_is_followed_by_another():
    gathering = Gathering()
    for _ in range(100):
        assert gathering.is_due(1)
        gathering.waited(WORTH_WAITING_FOR)


def groups_until_the_next_wait(gathering: Gathering) -> int:
    groups = 0
    while not gathering.is_due(1):
        groups += 1
    return groups


def test_waits_for_nothing_become_rare():
    gathering = Gathering()
    assert gathering.is_due(1)
    pauses = []
    for _ in range(10):
        gathering.waited(WORTH_WAITING_FOR - 1)
        pauses.append(groups_until_the_next_wait(gathering))
    assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
    assert pauses[-1] == LONGEST_PAUSE == max(pauses)


def test_one_good_wait_makes_the_pauses_short_again():
    gathering = Gathering()
    for gained in (0, 0, 0, WORTH_WAITING_FOR, 0):
        groups_until_the_next_wait(gathering)
        gathering.waited(gained)
    assert groups_until_the_next_wait(gathering) == FIRST_PAUSE


def test_a_client_that_waits_does_not_use_up_a_pause():
    gathering = Gathering()
    gathering.waited(0)
    assert not any(gathering.is_due(0) for _ in range(FIRST_PAUSE))
    assert groups_until_the_next_wait(gathering) == FIRST_PAUSE
