"""A pytest plugin that writes {test: "passed" | "skipped" | "failed"} and why it was not passed.

With KAZOO_SUITE_LANE=1/4 it takes every fourth test class, from the second on, and leaves the
others to runs beside this one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_outcomes: dict[str, list[str]] = {}


def pytest_collection_modifyitems(items: list[Any]) -> None:
    lane, _, lanes = os.environ.get("KAZOO_SUITE_LANE", "0/1").partition("/")
    groups = sorted({item.nodeid.rpartition("::")[0] for item in items})
    mine = set(groups[int(lane) :: int(lanes)])
    items[:] = [item for item in items if item.nodeid.rpartition("::")[0] in mine]


def pytest_runtest_logreport(report: Any) -> None:
    name = report.nodeid.replace("::", ".").rpartition("kazoo/tests/")[2]
    if report.when == "call" or report.outcome != "passed":
        reason = ""
        if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2])
        elif report.outcome == "failed":
            reason = str(report.longrepr).strip().splitlines()[-1] if report.longrepr else ""
        if _outcomes.get(name, [""])[0] != "failed":
            _outcomes[name] = [report.outcome, reason]


def pytest_sessionfinish() -> None:
    path = os.environ["KAZOO_SUITE_OUTCOMES"]
    Path(path).write_text(json.dumps(_outcomes, indent=1, sort_keys=True))
