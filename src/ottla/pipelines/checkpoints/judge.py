"""What becomes of a checkpoint, decided from what lies in its folder. No IO here.

A job that changed is never taken for the one that was: what it has read would be lost to its new
sink, or be written twice. It goes on, or begins anew, only where somebody has said so.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ottla.pipelines.checkpoints.fingerprint import differences
from ottla.pipelines.checkpoints.marks import Mark


class Choices(NamedTuple):
    """What somebody has said, by the names of jobs."""

    reset: frozenset[str] = frozenset()
    adopt: frozenset[str] = frozenset()


class Step(Enum):
    GO_ON = "go on"
    BEGIN = "begin"  # marked first
    TAKE_ON = "take on"  # marked anew
    MOVE_HERE = "move here"  # from another job's name, then marked anew
    SET_ASIDE = "set aside"  # and begin


class Lying(NamedTuple):
    """What lies in the folder of a query's checkpoint."""

    is_begun: bool = False  # Spark has been there
    mark: Mark | None = None
    damage: str = ""  # why the mark cannot be read
    # The place that the mark names is another one, and the same checkpoint is still there.
    is_copy: bool = False
    # Other folders that no job of the file has, whose mark is the same but for the name.
    relatives: Sequence[str] = ()


class Verdict(NamedTuple):
    """A step, or the words of a refusal."""

    step: Step | None
    words: str = ""
    source: str = ""


def decide(job: str, lying: Lying, wanted: Mark, choices: Choices) -> Verdict:
    """`wanted` is the mark as this job would write it."""
    if job in choices.reset:
        return Verdict(Step.SET_ASIDE if lying.is_begun else Step.BEGIN)
    if not lying.is_begun:
        # A mark alone is that of a job that has never read anything.
        return _new(job, lying, job in choices.adopt)
    if lying.mark is None and not lying.damage:
        # Of a version that wrote no marks.
        return Verdict(Step.TAKE_ON)
    if lying.mark is None:
        return _unless_adopted(job, f"the mark of its checkpoint {lying.damage}", choices)
    changes = differences(lying.mark.job, wanted.job)
    if lying.mark.stream != wanted.stream:
        changes.insert(0, f"name was {lying.mark.stream!r} and is {wanted.stream!r}")
    if lying.mark.place != wanted.place:
        changes.append(f"the checkpoint was at {lying.mark.place} and is at {wanted.place}")
    if not changes:
        return Verdict(Step.GO_ON)
    if lying.is_copy:
        return Verdict(
            None,
            f"its checkpoint is a copy of {lying.mark.place}, which is still there: two jobs would "
            f"take each other's writes for their own. Remove one of the two folders, or --reset "
            f"{job} begins anew",
        )
    return _unless_adopted(
        job, f"its checkpoint is that of another job: {'; '.join(changes)}", choices
    )


def _new(job: str, lying: Lying, is_adopted: bool) -> Verdict:
    if not lying.relatives:
        return Verdict(Step.BEGIN)
    if is_adopted and len(lying.relatives) == 1:
        return Verdict(Step.MOVE_HERE, source=lying.relatives[0])
    if is_adopted:
        names = ", ".join(lying.relatives)
        return Verdict(None, f"--adopt {job}: which checkpoint is its own? There are {names}")
    return Verdict(
        None,
        f"has no checkpoint, and there is that of a job that reads and writes the same, "
        f"{lying.relatives[0]}, which is not in the file any more. If it has got another name: "
        f"--adopt {job} goes on with that checkpoint; --reset {job} reads all of it again",
    )


def _unless_adopted(job: str, words: str, choices: Choices) -> Verdict:
    if job in choices.adopt:
        return Verdict(Step.TAKE_ON)
    return Verdict(
        None,
        f"{words}. --adopt {job} goes on from where the checkpoint is, as the job is now; "
        f"--reset {job} begins anew, and what was written before stays",
    )
