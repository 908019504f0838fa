from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ottla.console.web import live
from ottla.console.web.failures import ApiError
from ottla.console.web.live import Feeds, Snapshots
from ottla.errors import ErrorCode, KafkaError


class Told:
    """A source that gives what the test says, one thing per poll."""

    def __init__(self, *news: Any) -> None:
        self._news = list(news)
        self._last: Any = None
        self.polls = 0

    async def poll(self) -> Any | None:
        self.polls += 1
        if not self._news:
            return None
        found = self._news.pop(0)
        if isinstance(found, Exception):
            raise found
        self._last = found
        return found

    def whole(self) -> Any | None:
        return self._last


async def events(stream: AsyncIterator[bytes], count: int) -> list[tuple[str, Any]]:
    found = []
    async for raw in stream:
        name, data = raw.decode().strip().split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        if len(found) == count:
            break
    return found


async def test_the_whole_then_the_news() -> None:
    feeds = Feeds()
    stream = feeds.watch("f", "", lambda: Told(1, 2, 3), 0.0)
    assert await events(stream, 3) == [("whole", 1), ("news", 2), ("news", 3)]
    await feeds.close()


async def test_all_who_look_share_one_poller() -> None:
    feeds = Feeds()
    made: list[Told] = []

    def opened() -> Told:
        made.append(Told("picture"))
        return made[-1]

    first = feeds.watch("f", "key", opened, 60.0)
    assert await events(first, 1) == [("whole", "picture")]
    second = feeds.watch("f", "key", opened, 60.0)
    assert await events(second, 1) == [("whole", "picture")]
    other = feeds.watch("f", "other", opened, 60.0)
    assert await events(other, 1) == [("whole", "picture")]
    assert [source.polls for source in made] == [1, 1]
    await feeds.close()


async def test_nobody_looks_and_nothing_is_asked() -> None:
    feeds = Feeds()
    source = Told(*range(1000))
    stream = feeds.watch("f", "", lambda: source, 0.0)
    await events(stream, 1)
    await stream.aclose()  # type: ignore[attr-defined]
    assert feeds.watchers == 0
    polls = source.polls
    for _ in range(20):
        await asyncio.sleep(0)
    assert source.polls <= polls + 1


async def test_a_problem_is_told_once_and_its_end() -> None:
    feeds = Feeds()
    down = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no answer")
    stream = feeds.watch("f", "", lambda: Told(1, down, down, 2), 0.0)
    told = await events(stream, 4)
    assert [name for name, _ in told] == ["whole", "problem", "mended", "news"]
    assert told[1][1] == {"code": "REQUEST_TIMED_OUT", "message": "no answer"}
    await feeds.close()


async def test_a_mistake_of_our_own_is_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    feeds = Feeds()
    stream = feeds.watch("f", "", lambda: Told(ValueError("secret")), 60.0)
    ((name, value),) = await events(stream, 1)
    assert name == "problem" and "secret" not in str(value)
    assert "secret" in caplog.text
    await feeds.close()


async def test_whoever_does_not_take_the_news_is_cut() -> None:
    feeds = Feeds()
    stream = feeds.watch("f", "", lambda: Told(*range(1000)), 0.0)
    assert await anext(stream)
    for _ in range(300):
        await asyncio.sleep(0)
    left = [event async for event in stream]
    assert len(left) <= live._MAX_BEHIND
    assert feeds.watchers == 0


async def test_the_number_of_those_who_look_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MAX_WATCHERS", 1)
    feeds = Feeds()
    stream = feeds.watch("f", "", lambda: Told(1), 60.0)
    await events(stream, 1)
    with pytest.raises(ApiError, match="Too many pages"):
        feeds.watch("f", "", lambda: Told(1), 60.0)
    await feeds.close()


async def test_a_picture_is_told_when_it_is_another_one() -> None:
    pictures = iter(["a", "a", "b"])

    async def take() -> str:
        return next(pictures)

    source = Snapshots(take)
    assert source.whole() is None
    assert [await source.poll() for _ in range(3)] == ["a", None, "b"]
    assert source.whole() == "b"


async def test_who_never_takes_the_first_event_leaves_nothing() -> None:
    """A browser that has gone before its stream begins: each other query would stay for good."""
    feeds = Feeds()

    def opened() -> Told:
        raise AssertionError("nobody looks")

    streams = [feeds.watch("f", str(number), opened, 0.0) for number in range(100)]
    assert len(streams) == 100 and feeds.watchers == 0
    await feeds.close()


async def test_many_at_once_are_not_more_than_there_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "MAX_WATCHERS", 2)
    feeds = Feeds()
    streams = [feeds.watch("f", "", lambda: Told(1), 0.0) for _ in range(3)]
    assert await events(streams[0], 1) == await events(streams[1], 1) == [("whole", 1)]
    assert await events(streams[2], 1) == []
    await feeds.close()


async def test_nobody_looks_with_rights_that_were_given_back() -> None:
    feeds = Feeds()
    late = feeds.watch("f", "", lambda: Told(1), 0.0)
    await feeds.close()
    assert await events(late, 1) == []
    with pytest.raises(ApiError, match="session first"):
        feeds.watch("f", "", lambda: Told(1), 0.0)
