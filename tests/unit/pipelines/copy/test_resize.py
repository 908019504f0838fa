"""When a resize asks for its fence and for how long, and what it does when nobody says how the swap
went; whole resizes are in `tests/spark`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.resizing import ResizeBegun, ResizeEnd
from ottla.errors import ErrorCode, KafkaError
from ottla.pipelines.copy.copier import Check, Progress
from ottla.pipelines.copy.ends import CopyError, Endpoint
from ottla.pipelines.copy.folder import CopyFolder
from ottla.pipelines.copy.resize import Resize, ResizeSpec
from ottla.pipelines.copy.state import CopyState, Identity
from ottla.runtime import SystemDisk
from ottla.topics.partitioners import Partitioner
from tests.support.interrupted import stuck_at

OLD, NEW = b"o" * 16, b"n" * 16
END = ResizeEnd(NEW, 0, 0)


class Clock:
    now_s = 100.0

    def monotonic_ms(self) -> float:
        return self.now_s * 1000


class Follower:
    """A copy that is so far behind."""

    def __init__(self, lag: int, *, is_close: bool) -> None:
        self.lag, self.is_close = lag, is_close

    def lag_now(self) -> int:
        return self.lag


@pytest.fixture
def resize(tmp_path: Path) -> Any:
    nobody: Any = None
    clock: Any = Clock()
    begun = ResizeBegun(OLD, "shadow", NEW, 12, 1, False, 0)
    spec = ResizeSpec(Endpoint("localhost:1", "orders"), 5, Partitioner.MURMUR2)
    made: Any = Resize(nobody, spec, begun, CopyFolder(SystemDisk(), tmp_path), clock=clock)
    made._is_under_way = lambda: True
    return made


@pytest.mark.parametrize(
    ("lag", "is_close", "near"),
    [(5_000, True, True), (5_000, False, False), (12_000, True, True), (13_000, True, False)],
)
def test_a_fence_is_for_what_is_copied_in_a_moment(
    resize: Any, lag: int, is_close: bool, near: bool
) -> None:
    assert resize._is_near(Follower(lag, is_close=is_close), 50_000) is near


def test_a_producer_as_fast_as_the_copy_does_not_keep_it_for_ever(resize: Any) -> None:
    fast = Follower(90_000, is_close=False)
    assert not resize._is_near(fast, 100_000)
    resize._clock.now_s += 19
    assert not resize._is_near(fast, 100_000)
    assert not resize._is_near(Follower(110_000, is_close=False), 100_000), "counted anew"
    resize._clock.now_s += 19
    assert not resize._is_near(fast, 100_000)
    resize._clock.now_s += 2
    assert resize._is_near(fast, 100_000)


def answers(*codes: ErrorCode | None) -> Any:
    left = iter(codes)

    def ask() -> ResizeEnd:
        code = next(left)
        if code is None:
            return END
        raise CopyError("no") from KafkaError(code)

    return ask


def test_a_swap_that_nobody_spoke_of_is_asked_for_again(resize: Any) -> None:
    again = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER)
    assert resize._swap(answers(*again, None)) == END


def test_a_fence_that_was_lifted_means_that_nothing_has_changed(resize: Any) -> None:
    lifted = ErrorCode.FENCED_LEADER_EPOCH
    assert resize._swap(answers(ErrorCode.REQUEST_TIMED_OUT, lifted)) is None


def test_what_is_refused_is_not_asked_for_again(resize: Any) -> None:
    with pytest.raises(CopyError):
        resize._swap(answers(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


def test_patience_ends(resize: Any) -> None:
    def ask() -> ResizeEnd:
        resize._clock.now_s += 60
        raise CopyError("no") from KafkaError(ErrorCode.REQUEST_TIMED_OUT)

    with pytest.raises(CopyError):
        resize._swap(ask)
    assert resize._clock.now_s == 220


def test_a_signal_in_the_midst_of_another(resize: Any) -> None:
    assert stuck_at(resize.stop) is None


class Steps:
    """What is asked of brokers, and whether somebody wants the fence meanwhile."""

    def __init__(self) -> None:
        self.is_kept = False
        self.kept_at: dict[str, bool] = {}

    def connect(self) -> None:
        pass

    def fence(self) -> int:
        return 4

    @contextmanager
    def kept_fenced(self, fence: int) -> Iterator[None]:
        self.is_kept = True
        yield
        self.is_kept = False

    def begin_positions(self) -> None:
        pass

    def ends(self, fence: int) -> dict[int, int]:
        return {0: 10}

    def positions(self, asked: None) -> dict[str, dict[int, int]]:
        self.kept_at["positions"] = self.is_kept
        return {"g": {0: 5}}

    def finish(self, fence: int, groups: Any, *, guards_keys: bool) -> ResizeEnd:
        self.kept_at["finish"] = self.is_kept
        return END


def test_the_fence_is_wanted_until_the_swap_is_over(resize: Any) -> None:
    """Coordinators store the positions of thousands of groups before it."""

    class Copier:
        state = CopyState(Identity("", "a", "", "", "b", "", 1, "", "", ""), {}, {}, {})

        def finish(self, ends: dict[int, int]) -> None:
            pass

        def target_ends(self) -> dict[int, int]:
            return {0: 10}

    steps = Steps()
    assert resize._finish(Copier(), steps)[0] == END
    assert steps.kept_at == {"positions": True, "finish": True}
    assert not steps.is_kept


class Checked:
    """A copy that is complete, and found so."""

    is_close = True

    def __init__(self, *differing: tuple[int, int]) -> None:
        self.found = Check(7, list(differing), 0)
        self.state = CopyState(Identity("", "a", "", "", "b", "", 1, "", "", ""), {}, {}, {0: 12})
        self.finished: list[dict[int, int]] = []

    def start(self) -> None:
        pass

    def wait(self, timeout_s: float) -> bool:
        return False

    def progress(self) -> Progress:
        return Progress(7, 1.0, 0, 1)

    def lag_now(self) -> int:
        return 0

    def source_ends(self) -> dict[int, int]:
        return {0: 11, 1: 5}

    def finish(self, ends: dict[int, int]) -> None:
        self.finished.append(ends)

    def check(self, look: Any) -> Check:
        look()
        return self.found

    def pause(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_a_copy_is_read_back_before_anybody_waits(resize: Any) -> None:
    copier = Checked()
    resize._copier = lambda: copier
    seen: list[tuple[int, bool]] = []
    resize._check_copy(lambda progress: seen.append((progress.records, resize.is_checking)))
    # A former leader may tell of an end that is behind what was copied.
    assert copier.finished == [{0: 12, 1: 5}]
    assert seen == [(7, False), (7, True)]
    assert resize._check == copier.found


def test_a_copy_that_differs_is_not_swapped(resize: Any) -> None:
    resize._copier = lambda: Checked((0, 1))
    with pytest.raises(CopyError, match=r"1 pairs .* orders stays as it is; .* --abort"):
        resize.run()


def test_one_that_somebody_gave_up_is_told_so(resize: Any) -> None:
    resize._copier = lambda: Checked((0, 1))
    resize._is_under_way = lambda: False
    with pytest.raises(CopyError, match=r"orders is not being resized any more: .* \(1 pairs"):
        resize.run()
    resize.stop()
    with pytest.raises(CopyError, match="stopped after"):
        resize.run()


def test_a_check_can_be_stopped(resize: Any) -> None:
    resize._copier = Checked

    def stop(progress: Progress) -> None:
        if resize.is_checking:
            resize.stop()

    with pytest.raises(CopyError, match="the same command goes on from there"):
        resize._check_copy(stop)
