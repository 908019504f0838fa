"""A problem of a pipeline: one line that names the file, the job, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.pipelines.spec import Pipeline
from ottla.pipelines.spec_keys import SpecErrors


class Problem(NamedTuple):
    """`job` is empty where the pipeline as a whole is meant."""

    job: str
    words: str
    # Something is missing without which the job has no plan either.
    bars_plan: bool = False


def lines(pipeline: Pipeline, problems: Sequence[Problem]) -> list[str]:
    where = f"{pipeline.file}: " if pipeline.file else ""
    told = [
        where + (f"job {problem.job}: " if problem.job else "") + " ".join(problem.words.split())
        for problem in problems
    ]
    return [pipeline.secrets.hide(line) for line in told]


def raise_for(pipeline: Pipeline, problems: Sequence[Problem]) -> None:
    if problems:
        raise SpecErrors(lines(pipeline, problems))
