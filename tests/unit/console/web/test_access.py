from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.console.settings import ConsoleSettings
from ottla.console.web import access
from ottla.console.web.access import IDLE_MS, Visitors, check_mechanism, likely_mechanism
from ottla.console.web.failures import ApiError
from ottla.runtime import system_runtime

OPEN = ConsoleSettings(bootstrap="127.0.0.1:1")
CLOSED = ConsoleSettings(
    bootstrap="127.0.0.1:1",
    properties={"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
)


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def visitors(settings: ConsoleSettings, clock: Hands | None = None) -> Visitors:
    return Visitors(settings, system_runtime(), clock or Hands())


async def test_without_users_all_share_one_way_to_the_cluster() -> None:
    known = visitors(OPEN)
    first, second = await known.greet(None), await known.greet(None)
    assert first.cookie != second.cookie and first.token != second.token
    assert first.access is not None and first.access is second.access
    assert await known.greet(first.cookie) is first
    await known.close()


async def test_a_cookie_that_nobody_gave_is_worth_nothing() -> None:
    known = visitors(CLOSED)
    stranger = await known.greet("made-up")
    assert stranger.cookie != "made-up"
    assert stranger.access is None
    assert known.find("made-up") is None and known.find(None) is None
    await known.close()


async def test_secrets_are_not_shown() -> None:
    known = visitors(OPEN)
    visitor = await known.greet(None)
    assert visitor.cookie not in repr(visitor) and visitor.token not in repr(visitor)
    await known.close()


async def test_who_was_not_seen_for_long_is_forgotten() -> None:
    clock = Hands()
    known = visitors(OPEN, clock)
    gone, there = await known.greet(None), await known.greet(None)
    clock.now_ms = IDLE_MS / 2
    assert known.find(there.cookie) is there
    clock.now_ms = IDLE_MS * 1.2
    await known.forget_idle()
    assert known.find(gone.cookie) is None
    assert known.find(there.cookie) is there
    await known.close()


async def test_the_number_of_visitors_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_VISITORS", 3)
    clock = Hands()
    known = visitors(OPEN, clock)
    all_of_them = []
    for _ in range(10):
        clock.now_ms += 1
        all_of_them.append(await known.greet(None))
    assert [known.find(visitor.cookie) is visitor for visitor in all_of_them] == [False] * 7 + [
        True
    ] * 3
    await known.close()


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", ""])
async def test_mechanisms_without_a_password(mechanism: str) -> None:
    known = visitors(CLOSED)
    visitor = await known.greet(None)
    with pytest.raises(ApiError) as caught:
        await known.log_in(visitor, mechanism, "alice", "secret")
    assert caught.value.field == "mechanism"
    await known.close()


async def test_an_open_cluster_has_no_login() -> None:
    known = visitors(OPEN)
    visitor = await known.greet(None)
    with pytest.raises(ApiError, match="does not ask"):
        await known.log_in(visitor, "PLAIN", "alice", "secret")
    await known.close()


def test_the_form_offers_what_the_cluster_speaks() -> None:
    assert likely_mechanism(CLOSED) == "PLAIN"
    assert likely_mechanism(OPEN) == "SCRAM-SHA-512"
    with pytest.raises(ConfigError, match="by password"):
        check_mechanism(
            ConsoleSettings(
                bootstrap="b:1",
                properties={"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"},
            )
        )


class Open:
    """A cluster that lets everybody in."""

    async def describe_cluster(self) -> None:
        return None

    async def close(self) -> None:
        return None


async def test_one_user_does_not_push_the_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MAX_VISITORS", 6)
    monkeypatch.setattr(access, "MAX_VISITORS_OF_A_USER", 2)
    clock = Hands()
    known = visitors(CLOSED, clock)
    monkeypatch.setattr(known, "_connect", lambda _: Open())

    async def log_in(user: str) -> access.Visitor:
        clock.now_ms += 1
        return await known.log_in(await known.greet(None), "PLAIN", user, "secret")

    admin = await log_in("admin")
    alices = [await log_in("alice") for _ in range(10)]
    assert known.find(admin.cookie) is admin and admin.access is not None
    assert [known.find(alice.cookie) is alice for alice in alices] == [False] * 8 + [True] * 2
    await known.close()
