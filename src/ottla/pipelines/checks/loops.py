"""Jobs that feed themselves, through topics or folders: their rows would go round for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple

from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.spec import Archive, Ingest, Job, Mirror, Pipeline, StreamJob


class Place(NamedTuple):
    """A topic of a cluster, or a folder (of no cluster)."""

    cluster: str
    name: str


class _Step(NamedTuple):
    job: str
    source: Place
    target: Place


def find(pipeline: Pipeline, cluster_of: Callable[[str], str]) -> list[Problem]:
    """`cluster_of` tells clusters apart by their brokers. Each loop is told once."""
    steps = [step for job in pipeline.jobs for step in _steps(pipeline, job, cluster_of)]
    problems: dict[frozenset[str], Problem] = {}
    for step in steps:
        whole = _round(step, steps)
        if whole is None:
            continue
        jobs = list(dict.fromkeys(s.job for s in whole))
        shown = " -> ".join([s.source.name for s in whole] + [step.source.name])
        together = f" (with {', '.join(jobs[1:])})" if jobs[1:] else ""
        problems.setdefault(frozenset(jobs), Problem(step.job, f"feeds itself{together}: {shown}"))
    return list(problems.values())


def _steps(pipeline: Pipeline, job: Job, cluster_of: Callable[[str], str]) -> Iterator[_Step]:
    if not isinstance(job, StreamJob):  # the others run once
        return
    here = cluster_of(pipeline.servers_of(job))
    sources = [Place(here, topic) for topic in job.reads()]
    if isinstance(job, Mirror):
        there = cluster_of(job.to_bootstrap_servers)
        for source in sources:
            yield _Step(job.name, source, Place(there, job.prefix + source.name))
        return
    targets = [Place(here, topic.name) for topic in job.writes()]
    if isinstance(job, Ingest) and job.path is not None:
        sources.append(Place("", job.path))
    if isinstance(job, Archive):
        targets.append(Place("", job.path))
    for source in sources:
        for target in targets:
            yield _Step(job.name, source, target)


def _round(first: _Step, steps: list[_Step]) -> list[_Step] | None:
    """The shortest chain of steps from the first one back to where it reads."""
    came_by: dict[_Step, _Step | None] = {first: None}
    queue = [first]
    for step in queue:
        if _feeds(step.target, first.source):
            return _chain(step, came_by)
        for after in steps:
            if after not in came_by and _feeds(step.target, after.source):
                came_by[after] = step
                queue.append(after)
    return None


def _chain(last: _Step, came_by: Mapping[_Step, _Step | None]) -> list[_Step]:
    chain = []
    step: _Step | None = last
    while step is not None:
        chain.append(step)
        step = came_by[step]
    return chain[::-1]


def _feeds(written: Place, read: Place) -> bool:
    """Files that are written below a folder that is read are read."""
    if written.cluster or read.cluster:
        return written == read
    return PurePath(written.name).is_relative_to(PurePath(read.name))
