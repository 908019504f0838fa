"""Every flood that was found to hurt, each with its bound; `ottla bench attacks` has the figures.

The cases with their bounds are in `ottla.bench.attack_cases` and `attack_store_cases`: what an
attack may cost the server in processor time, memory, answers and log, and how long a good client
may wait beside it. Bounds here are for slow and busy machines.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.bench.attack_cases import Attack
from ottla.bench.attacks import ATTACKS, Stage
from tests.support.attacks.bounds import complaints, exceeded


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with Stage(tmp_path_factory.mktemp("attacks")) as stage:
        yield stage


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_others_are_served(attack: Attack, stage: Stage) -> None:
    measured = stage.measure(attack)
    was = attack.before or "no harm"
    assert exceeded(attack, measured) == {}, f"{attack.title}; when it was found: {was}"
    assert complaints(stage.side_of(attack)) == []
