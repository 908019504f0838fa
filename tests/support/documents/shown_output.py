"""Whether a command printed what its page shows: the same lines, whatever is drawn or counted."""

from __future__ import annotations

import re
from collections.abc import Sequence

# What differs from run to run: ids of topics and clusters, times, folders, numbers, the controller.
_MASKS = (
    (re.compile(r"\tController: true$"), ""),
    (re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r"), ""),
    (re.compile(r"(?<![\w/.-])[\w-]{22}(?![\w.-])"), "ID"),
    (re.compile(r"(?<![\w.:])/[\w./-]+"), "PATH"),
    (re.compile(r"\d{1,3}(?:,\d{3})+|\d+\.\d+"), "#"),
    (re.compile(r"\d+"), "#"),
    (re.compile(r"(?<=s) \(#:#:#\)$"), ""),
    (re.compile(r"[ \t]+"), " "),
)


def masked(line: str) -> str:
    for pattern, mask in _MASKS:
        line = pattern.sub(mask, line)
    return line.strip()


def first_not_printed(
    shown: Sequence[str], output: str, *, on_a_terminal: bool = False
) -> str | None:
    """The first line of the page that the output does not have, in this order; None if it has all.

    Lists of broker ids keep their length. A page may leave lines out; on a terminal, where tables
    are drawn again and again, a line may also go on.
    """
    printed = iter([masked(line) for line in output.splitlines()])
    for line in filter(str.strip, shown):
        wanted = masked(line)
        if on_a_terminal:
            if not any(candidate.startswith(wanted) for candidate in printed):
                return line
        elif wanted not in printed:
            return line
    return None
