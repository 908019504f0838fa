"""`--since`, `--from`, `--to`: how long ago, or a time."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from ottla.errors import OttlaError

_UNITS_MS = {
    "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000,
}  # fmt: skip
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ms|[smhdw])", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_MILLISECONDS = re.compile(r"\d{1,15}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadMoment(OttlaError):
    """Neither a duration nor a time."""


def parse_since(text: str, now_ms: int, option: str = "--since") -> int:
    """Milliseconds since 1970, from `90s`, `1h30m` or `PT1H` before now, from an ISO 8601 date or
    time (UTC where it names no zone), or from the milliseconds themselves."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    if _DURATION.fullmatch(text):
        parts = _PART.findall(text)
        return max(now_ms - round(sum(float(n) * _UNITS_MS[unit] for n, unit in parts)), 0)
    if text[:1] in ("P", "p"):
        from ottla.cli.groups.reset import parse_duration
        from ottla.client.groups.resets import ResetFailed

        try:
            return max(now_ms - parse_duration(text), 0)
        except ResetFailed as error:
            raise BadMoment(f"{option} {text}: {error}") from None
    with suppress(ValueError, OverflowError):
        from ottla.pipelines.spec_keys import parse_duration_s

        return max(now_ms - round(parse_duration_s(text) * 1000), 0)  # `10 minutes`
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise BadMoment(
            f"{option}: {text!r} is neither a duration such as 10m, 1h30m or PT1H, nor a time such "
            "as 2026-01-31T09:30"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - _EPOCH) // timedelta(milliseconds=1), 0)
