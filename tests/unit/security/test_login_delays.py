"""Logins that failed cost more and more, and only those who failed."""

from __future__ import annotations

import pytest

from ottla.security.login_delays import (
    FORGET_ONE_MS,
    FREE_FAILURES_OF_ADDRESS,
    LONGEST_MS,
    MAX_HELD_OF_ADDRESS,
    MAX_HELD_OF_NAME,
    MAX_REMEMBERED,
    LoginDelays,
    network_of,
)


def test_each_failure_doubles_the_wait() -> None:
    delays = LoginDelays(100)
    now, waits = 0.0, []
    for _ in range(9):
        wait = delays.after_failure("1.1.1.1", "alice", now)
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, LONGEST_MS, LONGEST_MS]


def test_neighbours_are_let_in_at_once() -> None:
    delays = LoginDelays(100)
    for _ in range(5):
        delays.after_failure("1.1.1.1", "alice", 0)
    assert delays.after_success("1.1.1.1", "bob", 0) == 0
    assert delays.after_success("2.2.2.2", "alice", 0) == 0
    assert delays.after_failure("1.1.1.1", "bob", 0) == 100
    assert delays.after_failure("2.2.2.2", "alice", 0) == 100


def test_a_right_password_among_wrong_ones_waits_for_them() -> None:
    delays = LoginDelays(100)
    for _ in range(5):
        delays.after_failure("1.1.1.1", "alice", 0)
    assert delays.after_success("1.1.1.1", "alice", 600) == 1000
    assert delays.after_success("1.1.1.1", "alice", 1600) == 0


def test_guesses_at_once_do_not_come_faster() -> None:
    """However many connections: a bounded number is looked at before the first wait is over."""
    delays = LoginDelays(100)
    waits = [delays.after_failure("1.1.1.1", "alice", 0) for _ in range(1000)]
    assert sum(wait is not None for wait in waits) == MAX_HELD_OF_NAME
    assert delays.after_success("1.1.1.1", "alice", 0) is None
    assert delays.after_success("1.1.1.1", "bob", 0) == 0
    # Those that were not looked at have not made it longer.
    assert delays.after_success("1.1.1.1", "alice", LONGEST_MS) == 0


def test_one_password_for_many_names() -> None:
    delays = LoginDelays(100)
    waits = [
        delays.after_failure("1.1.1.1", f"user-{i}", 0)
        for i in range(FREE_FAILURES_OF_ADDRESS + 10)
    ]
    assert waits[:FREE_FAILURES_OF_ADDRESS] == [100] * FREE_FAILURES_OF_ADDRESS
    assert waits[FREE_FAILURES_OF_ADDRESS] == 200
    assert waits[-2:] == [LONGEST_MS, LONGEST_MS]
    for i in range(1000):
        delays.after_failure("1.1.1.1", f"more-{i}", 0)
    assert delays.after_failure("1.1.1.1", "another", 0) is None
    assert delays.after_success("1.1.1.1", "bob", 0) == 0
    assert MAX_HELD_OF_ADDRESS < 1000


def test_failures_are_forgotten() -> None:
    delays = LoginDelays(100)
    for _ in range(4):
        delays.after_failure("1.1.1.1", "alice", 0)
    assert delays.after_failure("1.1.1.1", "alice", FORGET_ONE_MS) == 800
    assert delays.after_failure("1.1.1.1", "alice", 20 * FORGET_ONE_MS) == 100


def test_what_is_remembered_is_bounded() -> None:
    delays = LoginDelays(100)
    for i in range(MAX_REMEMBERED + 100):
        delays.after_failure(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", f"u{i}", 0)
    assert len(delays._names) == len(delays._addresses) == MAX_REMEMBERED
    # The oldest went.
    assert delays.after_success("10.0.0.0", "u0", 0) == 0


def test_peers_that_named_nobody() -> None:
    """They do not keep to the protocol, or ask for a mechanism that is not there."""
    delays = LoginDelays(100)
    assert [delays.after_failure("1.1.1.1", "", 0) for _ in range(1000)] == [100] * 1000
    assert delays.after_failure("1.1.1.1", "alice", 0) == 100


def test_switched_off() -> None:
    delays = LoginDelays(0)
    assert [delays.after_failure("1.1.1.1", "a", 0) for _ in range(100)] == [0.0] * 100
    assert delays.after_success("1.1.1.1", "a", 0) == 0


def test_a_long_first_wait_stays_as_long() -> None:
    delays = LoginDelays(60_000)
    assert delays.after_failure("1.1.1.1", "a", 0) == 60_000
    assert delays.after_failure("1.1.1.1", "a", 0) == 60_000


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("?", "?"),
        ("no:address", "no:address"),
    ],
)
def test_networks(address: str, network: str) -> None:
    assert network_of(address) == network
