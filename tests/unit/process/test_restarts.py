"""Processes that die are started again: soon, then rarer, never all the time."""

from __future__ import annotations

from ottla.process.restarts import MAX_PAUSE_S, SOUND_S, Restarts


def test_pauses_double_up_to_a_bound() -> None:
    restarts, now_s, pauses = Restarts(), 0.0, []
    for _ in range(8):
        pauses.append(restarts.plan("broker-0", started_s=now_s, now_s=now_s))
        now_s += pauses[-1]
        assert restarts.take_due(now_s) == ["broker-0"]
    assert pauses == [1, 2, 4, 8, 16, MAX_PAUSE_S, MAX_PAUSE_S, MAX_PAUSE_S]


def test_one_that_lived_long_is_back_soon() -> None:
    restarts = Restarts()
    for _ in range(3):
        restarts.plan("store", started_s=0, now_s=1)
    assert restarts.plan("store", started_s=0, now_s=SOUND_S) == 1


def test_each_has_its_own_time() -> None:
    restarts = Restarts()
    assert restarts.next_s() is None
    restarts.plan("broker-1", started_s=0, now_s=10)
    restarts.plan("broker-2", started_s=0, now_s=10.5)
    assert restarts.next_s() == 11
    assert restarts.take_due(10.9) == []
    assert restarts.take_due(11) == ["broker-1"]
    assert restarts.next_s() == 11.5
    assert restarts.take_due(20) == ["broker-2"]
    assert restarts.take_due(20) == []
