"""Dates and timestamps in the many forms that Spark reads (SparkDateTimeUtils), as days and as
microseconds since 1970. None is what Spark cannot read.

Times without a day (Spark takes today's) are not read: the same record would mean something else
on the next day.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})([ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2})?)?"
)
_MAX_OFFSET_S = 18 * 3600
_DAY_US = 86_400_000_000
_INT = re.compile(r"[+-]?[0-9]{1,10}")
# Spark trims what is not larger than a blank.
_BLANK = "".join(map(chr, range(33))) + "\x7f"


class UnknownZone(ValueError):
    """No time zone has this name."""


def zone_of(name: str) -> tzinfo:
    """A time zone by its name or its offset."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match:
        sign, hours, minutes, seconds, packed_minutes, packed_seconds = match.groups()
        total = (
            int(hours) * 3600
            + int(minutes or packed_minutes or 0) * 60
            + int(seconds or packed_seconds or 0)
        )
        if total <= _MAX_OFFSET_S and int(minutes or packed_minutes or 0) < 60:
            return timezone(timedelta(seconds=total if sign == "+" else -total))
        raise UnknownZone(name)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # of ZoneInfoNotFoundError and of odd names
        raise UnknownZone(name) from None


def days(text: str) -> int | None:
    for form in (text, text.replace("GMT", "")):
        found = _days(form.strip(_BLANK))
        if found is not None:
            return found
    # As in Spark 1.5: a number of days in a string.
    return int(text) if _INT.fullmatch(text) and -(2**31) <= int(text) < 2**31 else None


def _days(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    sign, year, month, day, _ = match.groups()
    return _civil(int(sign + year), int(month or 1), int(day or 1))


def microseconds(text: str, zone: tzinfo) -> int | None:
    """`zone` is where a time without one of its own was taken."""
    for form in (text, text.replace("GMT", "")):
        found = _microseconds(form.strip(_BLANK), zone)
        if found is not None:
            return found
    return None


def _microseconds(text: str, zone: tzinfo) -> int | None:
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, name = match.groups()
    date = _civil(int(sign + year), int(month or 1), int(day or 1))
    clock = int(hour or 0), int(minute or 0), int(second or 0)
    if date is None or clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
        return None
    try:
        given = zone_of(name.strip(_BLANK)) if name else zone
    except UnknownZone:
        return None
    seconds = clock[0] * 3600 + clock[1] * 60 + clock[2]
    local_us = date * _DAY_US + seconds * 1_000_000 + int((fraction or "")[:6].ljust(6, "0"))
    offset = _offset(given, local_us)
    return None if offset is None else local_us - offset


def _offset(zone: tzinfo, local_us: int) -> int | None:
    """Microseconds east of Greenwich at a local time. In the hour that a clock skips the offset
    before it counts, in the one that comes twice the first: as in java.time."""
    if zone is UTC:
        return 0
    try:
        local = datetime(1970, 1, 1) + timedelta(microseconds=local_us)
    except OverflowError:
        local = datetime(2000, 1, 1)
    offset = zone.utcoffset(local)
    return None if offset is None else offset // timedelta(microseconds=1)


def _civil(year: int, month: int, day: int) -> int | None:
    """Days since 1970 of a day in the Gregorian calendar, of any year."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    lengths = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not 1 <= month <= 12 or not 1 <= day <= lengths[month - 1]:
        return None
    before = year - 1
    first = before * 365 + before // 4 - before // 100 + before // 400
    return first + sum(lengths[: month - 1]) + day - 1 - 719_162
