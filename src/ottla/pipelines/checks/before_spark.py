"""All that can be found without Spark, in one list."""

from __future__ import annotations

from ottla.pipelines.checks import clusters, loops, places
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.spec import Pipeline


def find(pipeline: Pipeline) -> list[Problem]:
    """Files and functions, brokers and topics, loops."""
    asked = clusters.find(pipeline)
    round_trips = loops.find(pipeline, lambda servers: asked.ids.get(servers, servers))
    return [*places.find(pipeline), *asked.problems, *round_trips]
