"""Time-outs are negotiated, passwords checked, silence ends a session."""

from __future__ import annotations

from ottla.zk.server.sessions import SessionLimits, Sessions, first_session_id


def make() -> Sessions:
    return Sessions(SessionLimits(), b"secret", 100)


def test_the_asked_timeout_is_bounded_by_ticks():
    limits = SessionLimits()
    assert [limits.negotiate(asked) for asked in (0, 6000, 10**9)] == [4000, 6000, 40_000]
    wide = SessionLimits.of(2000, 100, 90_000)
    assert [wide.negotiate(asked) for asked in (0, 200, 10**9)] == [100, 200, 90_000]
    assert SessionLimits.of(500) == SessionLimits(500, 1000, 10_000)


def test_only_silence_expires_a_session():
    sessions = make()
    quiet, busy = sessions.adopt(1, 4000, 0), sessions.adopt(2, 4000, 0)
    busy.touch(3000)
    assert sessions.expired(3999) == []
    assert sessions.expired(4000) == [quiet]
    assert sessions.expired(7000) == [quiet, busy]
    sessions.remove(1)
    assert sessions.expired(7000) == [busy]


def test_a_password_fits_one_session():
    sessions = make()
    one = sessions.adopt(1, 4000, 0)
    sessions.adopt(2, 4000, 0)
    assert sessions.authenticate(1, sessions.password(1)) is one
    assert sessions.authenticate(1, sessions.password(2)) is None
    assert sessions.authenticate(1, b"") is None
    assert sessions.authenticate(1, None) is None
    assert sessions.authenticate(3, sessions.password(3)) is None
    assert Sessions(SessionLimits(), b"other", 1).password(1) != sessions.password(1)


def test_restored_sessions_get_their_time_again_and_ids_stay_unique():
    sessions = make()
    sessions.restore({500: 4000}, now_ms=10_000)
    assert sessions.get(500).deadline_ms == 14_000
    assert sessions.new_id() == 501


def test_ids_carry_the_server_and_the_time():
    earlier, later = first_session_id(3, 1_700_000_000_000), first_session_id(3, 1_700_000_000_001)
    assert earlier >> 56 == later >> 56 == 3
    assert earlier < later < 1 << 63
