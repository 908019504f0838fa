"""Where the data folder of `ottla up` has what: config files, pid files, folders of processes."""

from __future__ import annotations

import contextlib
from pathlib import Path


def config_path(data: Path, broker_id: int) -> Path:
    return data / "config" / f"broker-{broker_id}.properties"


def run_folder(data: Path) -> Path:
    """Pid files, and the lock of the one `ottla up` that writes here and into `config`."""
    return data / "run"


def pid_path(data: Path, name: str) -> Path:
    return run_folder(data) / f"{name}.pid"


def state_path(data: Path) -> Path:
    """What `ottla up` started, for `ottla status` and `ottla down`."""
    return run_folder(data) / "up.json"


def logs_folder(data: Path) -> Path:
    return data / "logs"


def store_folder(data: Path) -> Path:
    return data / "store"


def pid_path_beside(config: Path, broker_id: int) -> Path | None:
    """The pid file of a broker that is started by hand with a config that `ottla up` wrote."""
    data = config.absolute().parent.parent
    if config.absolute() != config_path(data, broker_id) or not run_folder(data).is_dir():
        return None
    return pid_path(data, f"broker-{broker_id}")


def write_pid(path: Path, pid: int) -> None:
    path.write_text(f"{pid}\n")


def remove_pid(path: Path, pid: int) -> None:
    """Unless it speaks of another process by now."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_text() == f"{pid}\n":
            path.unlink()
