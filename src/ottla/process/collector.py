"""How often Python looks for garbage that reference counts do not find."""

from __future__ import annotations

import gc

# Python's own are 700, 10 and 10: a start with 20,000 partitions, most of whose objects stay for
# good, then walks over the same objects again and again for a third of its time.
THRESHOLDS = (50_000, 20, 50)


def collect_rarely() -> None:
    """For a process that keeps most of what it makes, and makes few cycles."""
    gc.set_threshold(*THRESHOLDS)
