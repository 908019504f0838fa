"""The collector pauses for a while, and is as it was before."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from ottla.bounds.collector import uncollected


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    was_enabled = gc.isenabled()
    yield
    gc.enable() if was_enabled else gc.disable()


@pytest.mark.parametrize("before", [True, False])
def test_whoever_switched_it_off_before_keeps_it_so(before: bool) -> None:
    gc.enable() if before else gc.disable()
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled() is before


def test_a_failure_does_not_leave_it_off() -> None:
    gc.enable()
    with pytest.raises(ValueError, match="lost"), uncollected():
        raise ValueError("lost")
    assert gc.isenabled()


def test_what_became_garbage_meanwhile_is_found() -> None:
    class Ring:
        pass

    gc.enable()
    with uncollected():
        first, second = Ring(), Ring()
        first.other, second.other = second, first  # type: ignore[attr-defined]
        gone = weakref.ref(first)
        del first, second
        assert gone() is not None
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("made", [100, 30_000])
def test_only_much_work_moves_what_is_new_to_the_oldest_generation(made: int) -> None:
    before = gc.get_threshold()
    gc.enable()
    try:
        gc.set_threshold(20_000, 10, 10)
        gc.collect()
        with uncollected():
            kept = [[number] for number in range(made)]
        young = sum(gc.get_count())
        assert young >= 100 if made == len(kept) == 100 else young < 100
    finally:
        gc.set_threshold(*before)
