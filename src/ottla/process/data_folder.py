"""Where the data folder of `ottla up` has what: config files, pid files, folders of processes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from ottla.runtime import replace_file


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


def digest_path(data: Path) -> Path:
    """By what the brokers prove to the store who they are, where it is theirs alone."""
    return data / "config" / "store.digest"


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


def write_private(path: Path, text: str) -> None:
    """A file that may hold passwords: nobody else can read it, now or while it is written."""
    replace_file(path, text.encode(), 0o600)


def make_private(folder: Path) -> None:
    """A folder with users' credentials in its files, whatever its files' own modes are."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        folder.chmod(0o700)


def write_pid(path: Path, pid: int) -> None:
    replace_file(path, f"{pid}\n".encode(), 0o644)


def remove_pid(path: Path, pid: int) -> None:
    """Unless it speaks of another process by now."""
    with contextlib.suppress(FileNotFoundError):
        if path.read_text() == f"{pid}\n":
            path.unlink()
