"""Delays and pieces come from the seed; a slow link is slower."""

from __future__ import annotations

import pytest

from ottla.simulation.links import Links
from ottla.simulation.loop import SimulationLoop
from ottla.simulation.trace import Trace


@pytest.fixture
def loop() -> SimulationLoop:
    return SimulationLoop("seed")


def make_links(loop: SimulationLoop, seed: str = "seed") -> Links:
    return Links(loop, seed, Trace(loop.time, keep=True))


def test_the_same_seed_gives_the_same_delays(loop: SimulationLoop) -> None:
    first, second = make_links(loop), make_links(loop)
    delays = [first.arrival("a", "b") for _ in range(50)]
    assert delays == [second.arrival("a", "b") for _ in range(50)]
    assert delays != [make_links(loop, "other").arrival("a", "b") for _ in range(50)]


def test_one_direction_can_be_slower(loop: SimulationLoop) -> None:
    usual, slow = make_links(loop), make_links(loop)
    slow.between("a", "b").slowness = 100.0
    assert slow.arrival("a", "b") == pytest.approx(100 * usual.arrival("a", "b"))
    assert slow.arrival("b", "a") == usual.arrival("b", "a")
    assert slow.used() == [("a", "b"), ("b", "a")]


def test_pieces_are_the_whole_in_order(loop: SimulationLoop) -> None:
    links = make_links(loop)
    cut = [links.pieces(b"0123456789") for _ in range(200)]
    assert {b"".join(pieces) for pieces in cut} == {b"0123456789"}
    assert {len(pieces) for pieces in cut} == {1, 2}
    assert links.pieces(b"1") == (b"1",)
