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
from typing import Any, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.errors import OttlaError
from ottla.process.data_folder import run_folder, store_folder
from ottla.process.up_options import UpOptions, broker_properties, join_address
from ottla.runtime import DirInUse, Disk, HeldLock, SystemDisk

# For the processes of an earlier run that was killed; with many logs they need longer.
WAIT_S = 20.0
_PAUSE_S = 0.05


_CONNECT_S = 5.0


class PortInUse(OttlaError):
    """Somebody listens there already."""


class Claim(NamedTuple):
    """A port that a process of the cluster needs, and the flag that changes it."""

    host: str
    port: int
    owner: str
    option: str


def claim(options: UpOptions) -> HeldLock:
    """Lock, then ports: nothing that anybody may use is written before both are known to be
    free. A bad --set fails here too, in one line."""
    disk, folders, ports = SystemDisk(), [store_folder(options.data)], list[Claim]()
    if options.zookeeper is None:
        ports.append(Claim(options.host, options.zookeeper_port, "the store", "--zookeeper-port"))
    if options.console_port is not None:
        ports.append(Claim(options.host, options.console_port, "the console", "--console"))
    for broker_id in range(options.brokers):
        config = BrokerConfig.from_properties(broker_properties(options, broker_id))
        ports += ports_of(config, f"broker-{broker_id}", options)
        folders += config.log_dirs
    check_distinct(ports)
    if "," in str(options.data.absolute()) and "log.dirs" not in options.overrides:
        raise OttlaError(
            f"{options.data.absolute()} has a comma, which separates folders in log.dirs: choose "
            "another folder with --data"
        )
    run_folder(options.data).mkdir(parents=True, exist_ok=True)
    lock = lock_for_up(disk, options.data, run_folder(options.data))
    try:
        await_unlocked(disk, folders)
        for wanted in ports:
            check_port(*wanted)
        if options.advertise is not None:
            check_advertised(options.host, options.advertise, options.port)
    except BaseException:
        lock.release()
        raise
    return lock


def ports_of(config: BrokerConfig, owner: str, options: UpOptions) -> list[Claim]:
    option = "--set listeners" if "listeners" in options.overrides else "--port"
    found = [Claim(endpoint.host, endpoint.port, owner, option) for endpoint in config.listeners]
    metrics_port = config.integer("ottla.metrics.port")
    if metrics_port > 0:
        by_set = "ottla.metrics.port" in options.overrides
        option = "--set ottla.metrics.port" if by_set else "--metrics"
        found.append(Claim(found[0].host, metrics_port, f"the metrics of {owner}", option))
    return found


def check_distinct(ports: Iterable[Claim]) -> None:
    taken: dict[tuple[str, int], Claim] = {}
    for wanted in ports:
        other = taken.setdefault((wanted.host, wanted.port), wanted)
        if wanted.port and other is not wanted:
            raise PortInUse(
                f"{other.owner} and {wanted.owner} would both listen on "
                f"{join_address(wanted.host, wanted.port)}; {wanted.option} says so"
            )


def lock_for_up(disk: Disk, data: Path, run_folder: Path) -> HeldLock:
    try:
        return disk.lock(run_folder)
    except DirInUse as error:
        raise OttlaError(
            f"another `ottla up`{_pid(error)} runs with the folder {data}: stop it first, or "
            "choose another folder with --data and other ports"
        ) from None


def await_unlocked(disk: Disk, folders: Iterable[Path], *, wait_s: float | None = None) -> None:
    """Returns when nobody has any of the folders; raises DirInUse of the first that stays taken."""
    deadline = time.monotonic() + (WAIT_S if wait_s is None else wait_s)
    told = set[Path]()
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
                    f"{owner} cannot listen on {join_address(host, port)}: {error.strerror}; "
                    f"{option} chooses another port"
                ) from None
            if error.errno == errno.EADDRNOTAVAIL:
                raise OttlaError(
                    f"{owner} cannot listen on {host}: no address of this machine; --host 0.0.0.0 "
                    "listens on all of them"
                ) from None


def check_advertised(host: str, advertised: str, port: int) -> None:
    """Raises OttlaError where this machine does not reach itself by the name that clients are told:
    brokers use it among themselves, too."""
    with socket.create_server(
        (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
    ):
        try:
            socket.create_connection((advertised, port), timeout=_CONNECT_S).close()
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or "no answer"
            raise OttlaError(
                f"brokers reach one another by --advertise, too, and {advertised} does not lead "
                f"back to {join_address(host, port)}: {reason}"
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
