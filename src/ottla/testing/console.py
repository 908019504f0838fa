"""`ottla console` as a child process, on a free port."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

from ottla.testing.cluster import ClusterError

START_TIMEOUT_S = 60.0


@contextlib.contextmanager
def running_console(bootstrap: str, *options: str) -> Iterator[str]:
    """Its address, without the slash at the end."""
    command: Sequence[str] = (
        sys.executable, "-m", "ottla", "console", "--bootstrap-server", bootstrap, "--port", "0",
        *options,
    )  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watchdog = threading.Timer(START_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("console: "):
            raise ClusterError(f"the console did not start: {line!r}")
        watchdog.cancel()
        yield line.removeprefix("console: ").strip().rstrip("/")
    finally:
        watchdog.cancel()
        process.terminate()
        process.wait(timeout=30)
        if process.stdout is not None:
            process.stdout.close()
