"""How many descriptors this process may have: every connection and open segment takes one."""

from __future__ import annotations

import contextlib


def raise_file_limit() -> None:
    """The soft limit is often 1,024; a process may take it up to the hard one by itself."""
    import resource  # for these calls alone

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_for_segments(wanted: int) -> int:
    """At most half of them: where segments take all, the next file that cannot be opened looks
    like a folder that fails."""
    soft = _soft_limit()
    return wanted if soft is None else min(wanted, soft // 2)


def share_for_connections() -> int | None:
    """Three eighths; None: as many as one likes. An eighth is left for indexes, checkpoints and
    what the process itself opens."""
    soft = _soft_limit()
    return None if soft is None else soft * 3 // 8


def _soft_limit() -> int | None:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
