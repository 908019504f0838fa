"""What `ottla up` makes sure of before it writes anything: that nobody else is at work there.

Its own lock keeps a second `ottla up` out of `config` and `run`. The folders of the store and of
the brokers are locked by their own processes; here they are only looked at, because processes of an
`ottla up` that was killed may still be on their way out.
"""

from __future__ import annotations

import errno
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.runtime import DirInUse, Disk, HeldLock

# For the processes of an earlier run that was killed; with many logs they need longer.
WAIT_S = 20.0
_PAUSE_S = 0.05


class PortInUse(OttlaError):
    """Somebody listens there already."""


def lock_for_up(disk: Disk, data: Path, run_folder: Path) -> HeldLock:
    try:
        return disk.lock(run_folder)
    except DirInUse as error:
        raise OttlaError(
            f"another `ottla up`{_pid(error)} runs with the folder {data}: stop it first, or "
            "choose another folder with --data and other ports"
        ) from None


def await_unlocked(disk: Disk, folders: Iterable[Path], *, wait_s: float = WAIT_S) -> None:
    """Returns when nobody has any of the folders; raises DirInUse of the first that stays taken."""
    deadline, told = time.monotonic() + wait_s, set[Path]()
    for folder in folders:
        while folder.is_dir():
            try:
                disk.lock(folder).release()
                break
            except OSError:
                break  # not ours to use: whoever shall use it says so
            except DirInUse as error:
                if time.monotonic() > deadline:
                    raise
                if folder not in told:
                    told.add(folder)
                    print(
                        f"waiting for the process{_pid(error)} that still has {folder}",
                        file=sys.stderr,
                        flush=True,
                    )
                time.sleep(_PAUSE_S)


def check_port(host: str, port: int, owner: str, option: str) -> None:
    """Raises PortInUse. The port is free again afterwards: its owner binds it in its process."""
    try:
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError:
        return  # whoever binds it says what is wrong with the name
    for family, _, _, _, address in found if port else ():
        try:
            _bind(family, address)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise PortInUse(
                    f"{owner} cannot listen on {host}:{port}: {error.strerror}; "
                    f"{option} chooses another port"
                ) from None


def _bind(family: int, address: tuple[Any, ...]) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As servers bind: connections of an earlier one that linger are no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        probe.bind(address)
        probe.listen(1)


def _pid(error: DirInUse) -> str:
    return f" (pid {error.holder})" if error.holder else ""
