"""The mark of a checkpoint, whole and damaged."""

from __future__ import annotations

import json

import pytest

from ottla.pipelines.checkpoints.marks import Damaged, Mark, decode, encode

MARK = Mark("a", "/c/a", {"kind": "archive", "sql": "sélect"}, "5a17")


def test_what_is_written_is_read():
    assert decode(encode(MARK)) == MARK


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        (encode(MARK)[:20], "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a mark of a job"),
        ("{}", "is not a mark of a job"),
        (json.dumps({"version": 2}), "was written by a later version of Ottla"),
        (json.dumps({"version": 1, "stream": "a"}), "lacks what tells a job from others"),
        (
            json.dumps({"version": 1, **MARK._asdict(), "job": {"sql": 5}}),
            "lacks what tells a job from others",
        ),
    ],
)
def test_what_is_damaged_says_why(text, why):
    with pytest.raises(Damaged, match=f"^{why}$"):
        decode(text)
