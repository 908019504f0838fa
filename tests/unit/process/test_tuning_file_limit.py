"""Descriptors: the soft limit goes up, and segments leave half of them to others."""

from __future__ import annotations

import subprocess
import sys

_SCRIPT = """
import resource
from ottla.process.tuning import raise_file_limit, share_for_connections, share_for_segments
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 300))
print(share_for_segments(2048))
raise_file_limit()
soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft, share_for_segments(2048), share_for_segments(9), share_for_connections())
"""


def test_the_soft_limit_is_raised_and_shared() -> None:
    # In a process of its own: a hard limit that was lowered stays so.
    run = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["50", "300", "150", "9", "112"]
