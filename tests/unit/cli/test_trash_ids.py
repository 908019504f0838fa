"""Ids of deleted topics, as people type them."""

from __future__ import annotations

import click
import pytest

from ottla.cli.trash_ids import read_id
from ottla.types import ZERO_TOPIC_ID, format_topic_id


def test_an_id_or_none() -> None:
    assert read_id(None) is None
    assert read_id(format_topic_id(b"i" * 16)) == b"i" * 16


@pytest.mark.parametrize("text", ["", "x", "A" * 23, format_topic_id(ZERO_TOPIC_ID)])
def test_what_is_no_id_is_not_taken_for_any(text: str) -> None:
    """Zeros are what a broker takes for the topic that was deleted last: a purge of another one."""
    with pytest.raises(click.UsageError):
        read_id(text)
