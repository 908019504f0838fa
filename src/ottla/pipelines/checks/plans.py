"""The plans of jobs, made by Spark and not run: SQL, schemas and conditions are looked at."""

from __future__ import annotations

from ottla.errors import OttlaError
from ottla.pipelines.checks.problems import Problem
from ottla.pipelines.context import JobContext
from ottla.pipelines.jobs import ingest, restore, transform
from ottla.pipelines.report import reason_of
from ottla.pipelines.spec import Ingest, Job, Restore, Transform


def find(context: JobContext) -> list[Problem]:
    problems = []
    for job in context.pipeline.jobs:
        try:
            _plan(context, job)
        except OttlaError as error:
            problems.append(Problem(job.name, str(error)))
        # Whatever Spark, or a user's function, raises.
        except Exception as error:
            problems.append(Problem(job.name, reason_of(error)))
    return problems


def _plan(context: JobContext, job: Job) -> None:
    """Only of jobs in which a user has a say; the plans of others cannot be wrong."""
    if isinstance(job, Ingest):
        ingest.streams(context, job)
    elif isinstance(job, Transform):
        transform.streams(context, job)
    elif isinstance(job, Restore):
        restore.wanted_rows(context, job)
