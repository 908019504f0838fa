"""Data pipelines over topics, on Spark: jobs joined by topics, each a plain function of DataFrames.

    from ottla.pipelines import Archive, Pipeline, load_pipeline, run_pipeline

Names are imported when they are used: reading a pipeline file needs no Spark.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.pipelines.report import JobReport, PipelineReport
    from ottla.pipelines.runner import run_pipeline
    from ottla.pipelines.spec import (
        Archive,
        Audit,
        Ingest,
        Mirror,
        Pipeline,
        Profile,
        Restore,
        Transform,
    )
    from ottla.pipelines.spec_keys import Restart, Source, SpecError, TopicSpec
    from ottla.pipelines.spec_reader import load_pipeline, parse_pipeline

_HOMES = {
    "report": ("JobReport", "PipelineReport"),
    "runner": ("run_pipeline",),
    "spec": (
        "Archive",
        "Audit",
        "Ingest",
        "Mirror",
        "Pipeline",
        "Profile",
        "Restore",
        "Transform",
    ),
    "spec_keys": ("Restart", "Source", "SpecError", "TopicSpec"),
    "spec_reader": ("load_pipeline", "parse_pipeline"),
}

__all__ = [
    "Archive",
    "Audit",
    "Ingest",
    "JobReport",
    "Mirror",
    "Pipeline",
    "PipelineReport",
    "Profile",
    "Restart",
    "Restore",
    "Source",
    "SpecError",
    "TopicSpec",
    "Transform",
    "load_pipeline",
    "parse_pipeline",
    "run_pipeline",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"ottla.pipelines.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
