"""A client may name what is here, and ten thousand partitions that are not."""

from __future__ import annotations

import pytest

from ottla.broker.context.breadth import MOST_STRANGERS, check_breadth
from ottla.broker.context.request import CloseConnection


@pytest.mark.parametrize(
    ("named", "hosted"), [(0, 0), (MOST_STRANGERS, 0), (MOST_STRANGERS + 500, 500)]
)
def test_what_a_client_can_have_in_mind_passes(named: int, hosted: int) -> None:
    check_breadth(named, range(hosted))


@pytest.mark.parametrize("hosted", [0, 500])
def test_more_ends_the_connection(hosted: int) -> None:
    named = MOST_STRANGERS + hosted + 1
    with pytest.raises(CloseConnection, match=f"{named} partitions are named, {hosted} are here"):
        check_breadth(named, range(hosted))
