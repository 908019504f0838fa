"""What becomes of a checkpoint: every case, with nothing said, --adopt and --reset."""

from __future__ import annotations

import pytest

from ottla.pipelines.checkpoints.judge import Choices, Lying, Step, decide
from ottla.pipelines.checkpoints.marks import Mark

MARK = Mark("j", "/c/j", {"kind": "archive", "path": "/p"}, "")
OTHER = MARK._replace(job={"kind": "archive", "path": "/q"})
NOTHING, ADOPT, RESET = (
    Choices(),
    Choices(adopt=frozenset("j")),
    Choices(reset=frozenset("j")),
)


@pytest.mark.parametrize(
    ("lying", "unsaid", "adopted", "reset"),
    [
        (Lying(), Step.BEGIN, Step.BEGIN, Step.BEGIN),
        # Killed before Spark was there: nothing was read.
        (Lying(mark=OTHER), Step.BEGIN, Step.BEGIN, Step.BEGIN),
        (Lying(damage="is not JSON"), Step.BEGIN, Step.BEGIN, Step.BEGIN),
        # Of a version without marks.
        (Lying(is_begun=True), Step.TAKE_ON, Step.TAKE_ON, Step.SET_ASIDE),
        (Lying(is_begun=True, mark=MARK), Step.GO_ON, Step.GO_ON, Step.SET_ASIDE),
        (
            Lying(is_begun=True, mark=OTHER),
            "its checkpoint is that of another job: path was '/q' and is '/p'. --adopt j goes on",
            Step.TAKE_ON,
            Step.SET_ASIDE,
        ),
        (
            Lying(is_begun=True, mark=MARK._replace(stream="k", place="/c/k")),
            "its checkpoint is that of another job: name was 'k' and is 'j'; the checkpoint was at "
            "/c/k and is at /c/j. --adopt j",
            Step.TAKE_ON,
            Step.SET_ASIDE,
        ),
        (
            Lying(is_begun=True, mark=MARK._replace(place="/c/k"), is_copy=True),
            "its checkpoint is a copy of /c/k, which is still there",
            "its checkpoint is a copy of /c/k, which is still there",
            Step.SET_ASIDE,
        ),
        (
            Lying(is_begun=True, damage="is not JSON"),
            "the mark of its checkpoint is not JSON. --adopt j",
            Step.TAKE_ON,
            Step.SET_ASIDE,
        ),
        (
            Lying(relatives=["k"]),
            "has no checkpoint, and there is that of a job that reads and writes the same, k,",
            Step.MOVE_HERE,
            Step.BEGIN,
        ),
        (
            Lying(relatives=["k", "l"]),
            "has no checkpoint, and there is that of",
            "--adopt j: which checkpoint is its own? There are k, l",
            Step.BEGIN,
        ),
    ],
)
def test_every_case(lying, unsaid, adopted, reset):
    for choices, wanted in ((NOTHING, unsaid), (ADOPT, adopted), (RESET, reset)):
        verdict = decide("j", lying, MARK, choices)
        if isinstance(wanted, Step):
            assert verdict.step is wanted
        else:
            assert verdict.step is None and verdict.words.startswith(wanted)
