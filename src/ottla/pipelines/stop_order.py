"""Which jobs feed which, through the topics between them."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.pipelines.spec import Job


def feeders(jobs: Sequence[Job]) -> dict[str, set[str]]:
    """For each job the names of the jobs that write a topic it reads."""
    writers: dict[str, set[str]] = {}
    for job in jobs:
        for topic in job.writes():
            writers.setdefault(topic.name, set()).add(job.name)
    return {
        job.name: {name for topic in job.reads() for name in writers.get(topic, ())} - {job.name}
        for job in jobs
    }


def fed_by_any(name: str, sources: set[str], fed_by: dict[str, set[str]]) -> str | None:
    """One of the sources from which rows come to the job, through others too; None for none."""
    seen, queue = {name}, [name]
    for current in queue:
        found = sorted(fed_by[current] & sources)
        if found:
            return found[0]
        queue += [feeder for feeder in sorted(fed_by[current]) if feeder not in seen]
        seen.update(queue)
    return None


def levels(jobs: Sequence[Job]) -> list[list[str]]:
    """Jobs in the order in which a drained stop ends them: those that nobody feeds first.
    Jobs that feed each other in a circle come together, last."""
    fed_by = feeders(jobs)
    left = [job.name for job in jobs]
    order: list[list[str]] = []
    while left:
        ready = [name for name in left if not fed_by[name] & set(left)] or left
        order.append(ready)
        left = [name for name in left if name not in ready]
    return order
