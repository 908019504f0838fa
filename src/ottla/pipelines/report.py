"""What a pipeline did, for people and for programs."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

MAX_REASON_CHARS = 400
_MAX_CAUSES = 10
# The last line of a Python traceback, as Spark quotes it in the middle of its own words.
_PYTHON_ERROR = re.compile(
    r"(?:ottla[\w.]*\.\w+|(?:[a-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception)): (?P<words>.+)"
)
# What Py4J says before the exception of Java's itself.
_CALL_FAILED = "An error occurred while calling "
_NOT_PYTHON = ("org.", "java.", "com.", "scala.")


@dataclass(frozen=True, slots=True)
class JobReport:
    name: str
    kind: str
    state: str  # finished, stopped or failed
    rows_in: int
    # None where a job writes no rows, or does not say.
    rows_out: int | None = None
    dead_letters: int | None = None
    batches: int = 0
    restarts: int = 0
    seconds: float = 0.0
    error: str | None = None
    notes: tuple[str, ...] = ()
    data: Any = None


@dataclass(frozen=True, slots=True)
class PipelineReport:
    name: str
    seconds: float
    jobs: tuple[JobReport, ...] = field(default=())

    @property
    def is_sound(self) -> bool:
        return all(job.state != "failed" for job in self.jobs)

    def job(self, name: str) -> JobReport:
        return next(job for job in self.jobs if job.name == name)

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.name,
            "seconds": round(self.seconds, 3),
            "sound": self.is_sound,
            "jobs": [asdict(job) | {"notes": list(job.notes)} for job in self.jobs],
        }

    def lines(self) -> list[str]:
        """One line per job, and what it has to say below."""
        width = max((len(job.name) for job in self.jobs), default=0)
        lines = []
        for job in self.jobs:
            words = f"{job.name:<{width}}  {job.state:<8}  {job.rows_in:>12,} rows in"
            if job.rows_out is not None:
                words += f"  {job.rows_out:>12,} out"
            if job.dead_letters is not None:
                words += f"  {job.dead_letters:,} dead letters"
            if job.batches:
                words += f"  {job.batches:>6,} batches"
            if job.restarts:
                words += f"  {job.restarts} restarts"
            lines.append(f"{words}  {job.seconds:.1f} s")
            lines += [f"  {note}" for note in job.notes]
            if job.error:
                lines.append(f"  {job.error}")
        return lines


def reason_of(error: BaseException | str) -> str:
    """A failure of Spark in one line: what our Python code said, or Spark's first words."""
    lines = _lines(error)
    for line in reversed(lines):
        found = _PYTHON_ERROR.fullmatch(line)
        if found and "Py4J" not in line and not line.startswith(_NOT_PYTHON):
            return found["words"][:MAX_REASON_CHARS]
    first, root = lines[0], _lines(_root(error))[0]
    if first.startswith(_CALL_FAILED) and len(lines) > 1:
        first = root = lines[1].removeprefix(": ")
    words = first if root in first else f"{first} ({root})"
    return words[:MAX_REASON_CHARS].rstrip(";")


def _root(error: BaseException | str) -> BaseException | str:
    """Where it all began; Spark's exceptions know their causes."""
    for _ in range(_MAX_CAUSES):
        cause = getattr(error, "_cause", None)
        if not isinstance(cause, BaseException):
            break
        error = cause
    return error


def _lines(error: BaseException | str) -> list[str]:
    text = str(error).strip() or type(error).__name__
    return [line.strip() for line in text.splitlines() if line.strip()]
