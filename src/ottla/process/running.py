"""Which processes run with a data folder of `ottla up`.

Whoever has a folder's lock is there: unlike what a pid file says, that stays true after `kill -9`,
and of brokers that were started by hand.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.errors import OttlaError
from ottla.process.children import STOP_TIMEOUT_S, STORE
from ottla.process.data_folder import run_folder, state_path, store_folder
from ottla.process.up_options import UpOptions, broker_properties, join_address
from ottla.runtime import folder_holder

_PAUSE_S = 0.05
_CONNECT_S = 2.0
# Its brokers, then its store, then a little for itself.
DOWN_TIMEOUT_S = 2 * STOP_TIMEOUT_S + 10.0


@dataclass(frozen=True, slots=True)
class Process:
    """The store or a broker; `pid` is None where nobody has its folder, 0 where the system does not
    say who (in another container)."""

    name: str
    pid: int | None
    address: str
    folder: Path

    @property
    def runs(self) -> bool:
        return self.pid is not None


@dataclass(frozen=True, slots=True)
class Cluster:
    """What an `ottla up` started, or wanted to."""

    supervisor: int | None
    processes: tuple[Process, ...]
    bootstrap_servers: str
    zookeeper: str

    @property
    def runs(self) -> bool:
        return self.supervisor is not None or any(process.runs for process in self.processes)


def describe_processes(options: UpOptions) -> str:
    """What `look` reads again, as JSON."""
    processes: list[dict[str, str]] = []

    def add(name: str, folder: Path, address: str) -> None:
        processes.append({"name": name, "folder": str(folder.absolute()), "address": address})

    if options.zookeeper is None:
        add(STORE, store_folder(options.data), options.zookeeper_connect)
    for broker_id in range(options.brokers):
        properties = broker_properties(options, broker_id)
        folders = properties.get("log.dirs") or properties["log.dir"]
        address = join_address(options.advertised_host, options.port + broker_id)
        add(f"broker-{broker_id}", Path(folders.split(",")[0]), address)
    state = {
        "processes": processes,
        "bootstrap_servers": options.bootstrap_servers,
        "zookeeper": options.advertised_zookeeper,
    }
    return json.dumps(state, indent=2) + "\n"


def look(data: Path) -> Cluster | None:
    """None where no `ottla up` has ever left anything to look at, or nothing of it is left."""
    supervisor = folder_holder(run_folder(data))
    try:
        state: dict[str, Any] = json.loads(state_path(data).read_bytes())
        processes = tuple(
            Process(p["name"], folder_holder(Path(p["folder"])), p["address"], Path(p["folder"]))
            for p in state["processes"]
        )
        cluster = Cluster(supervisor, processes, state["bootstrap_servers"], state["zookeeper"])
    except FileNotFoundError:
        # On its way in or out, or never there.
        cluster = Cluster(supervisor, (), "", "")
    except (ValueError, KeyError, TypeError):
        raise OttlaError(f"{state_path(data)} is damaged: remove it") from None
    return cluster if cluster.runs else None


def answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
    except OSError:
        return False
    return True


def stop(data: Path, cluster: Cluster, say: Callable[[str], None]) -> None:
    """An orderly stop of everything; raises OttlaError of whoever does not end."""
    deadline_s = time.monotonic() + DOWN_TIMEOUT_S
    if cluster.supervisor is not None:
        # Brokers that were started by hand leave while there is a store and a controller.
        own_group = _group(cluster.supervisor)
        by_hand = [
            process
            for process in cluster.processes
            if process.pid and _group(process.pid) != own_group
        ]
        for process in by_hand:
            _end(process.name, process.folder, process.pid or 0, deadline_s, say)
        _end("ottla up", run_folder(data), cluster.supervisor, deadline_s, say)
    # The store last, whatever is left.
    for process in sorted(cluster.processes, key=lambda process: process.name == STORE):
        holder = folder_holder(process.folder)
        if holder is not None:
            _end(process.name, process.folder, holder, deadline_s, say)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _end(name: str, folder: Path, pid: int, deadline_s: float, say: Callable[[str], None]) -> None:
    if pid <= 0:
        raise OttlaError(f"{name} runs where it cannot be stopped from here (another container?)")
    say(f"stopping {name} (pid {pid})")
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise OttlaError(f"{name} (pid {pid}) belongs to another user") from None
    while folder_holder(folder) == pid:
        if time.monotonic() > deadline_s:
            raise OttlaError(f"{name} (pid {pid}) does not stop; kill -9 {pid} ends it")
        time.sleep(_PAUSE_S)
