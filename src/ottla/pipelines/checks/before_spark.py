"""All that can be found without Spark, in one list."""

from __future__ import annotations

from ottla.pipelines.checkpoints.judge import Choices
from ottla.pipelines.checkpoints.keeper import NO_CHOICES, Keeper
from ottla.pipelines.checks import clusters, loops, places
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.spec import Pipeline


def find(pipeline: Pipeline, choices: Choices = NO_CHOICES) -> list[Problem]:
    """Files and functions, brokers and topics, loops, and checkpoints of other jobs."""
    asked = clusters.find(pipeline)
    round_trips = loops.find(pipeline, lambda servers: asked.ids.get(servers, servers))
    keeper = Keeper(pipeline, None, asked.ids, choices)
    foreign = [Problem(job, words) for job, words in keeper.wrong()]
    return [*places.find(pipeline), *asked.problems, *round_trips, *foreign]
