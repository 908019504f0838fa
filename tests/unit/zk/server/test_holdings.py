"""What clients hold together, and who goes when it is too much."""

from __future__ import annotations

from ottla.zk.server.holdings import GRAIN_BYTES, Holdings

KB = 1 << 10


class Held:
    def __init__(self, host: str) -> None:
        self.host = host
        self.reason = ""

    def give_up(self, reason: str) -> None:
        self.reason = reason


def test_the_heaviest_connection_of_the_heaviest_address_goes():
    holdings = Holdings(1000 * KB)
    good = Held("10.0.0.1")
    crowd = [Held("10.0.0.2") for _ in range(7)]
    holdings.note(good, 400 * KB)
    for number, one in enumerate(crowd):
        holdings.note(one, (80 + number) * KB)
    assert not any(one.reason for one in crowd)
    late = Held("10.0.0.3")
    holdings.note(late, 50 * KB)
    assert [bool(one.reason) for one in crowd] == [False] * 6 + [True]
    assert not good.reason, "it has most of all, but its address has less than the crowd's"
    assert not late.reason
    assert holdings.total <= 1000 * KB


def test_what_is_let_go_is_counted_out():
    holdings = Holdings(1000 * KB)
    one, two = Held("a"), Held("b")
    holdings.note(one, 900 * KB)
    holdings.note(one, 300 * KB)
    holdings.note(two, 600 * KB)
    holdings.note(one, GRAIN_BYTES - 1)
    assert holdings.total == 600 * KB
    holdings.note(two, 0)
    holdings.note(two, 0)
    assert holdings.total == 0
    assert not one.reason
    assert not two.reason


def test_one_that_is_too_heavy_alone_goes_alone():
    holdings = Holdings(1000 * KB)
    light, heavy = Held("a"), Held("b")
    holdings.note(light, 900 * KB)
    holdings.note(heavy, 1100 * KB)
    assert heavy.reason
    assert not light.reason
    assert holdings.total == 900 * KB
