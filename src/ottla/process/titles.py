"""What `ps` and `top` call a process of `ottla up`: all of them were born with the same command."""

from __future__ import annotations

from pathlib import Path


def set_title(name: str, data: Path) -> None:
    # `top` and `ps -e` show 15 characters: ottla-broker-31 just fits.
    from setproctitle import setproctitle

    setproctitle(f"ottla-{name} {data.absolute()}")
