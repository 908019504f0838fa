"""Pid files: of the process that lives, and nobody removes another one's."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.process.data_folder import (
    config_path,
    make_private,
    pid_path,
    pid_path_beside,
    remove_pid,
    write_pid,
    write_private,
)


def test_only_its_own_pid_file_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.pid"
    remove_pid(path, 7)
    write_pid(path, 77)
    remove_pid(path, 7)
    assert path.read_text() == "77\n"
    remove_pid(path, 77)
    assert not path.exists()


def test_a_config_of_ottla_up_leads_to_the_pid_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_path(tmp_path, 2)
    assert pid_path_beside(config, 2) is None, "no folder for it"
    (tmp_path / "run").mkdir()
    (tmp_path / "config").mkdir()
    assert pid_path_beside(config, 2) == pid_path(tmp_path, "broker-2")
    monkeypatch.chdir(tmp_path / "config")
    assert pid_path_beside(Path("broker-2.properties"), 2) == pid_path(tmp_path, "broker-2")
    assert pid_path_beside(Path("broker-2.properties"), 3) is None
    assert pid_path_beside(tmp_path / "config" / "server.properties", 2) is None


def test_files_with_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("not ours")
    path = tmp_path / "broker-0.properties"
    for name in (path, tmp_path / "broker-0.properties.tmp"):
        name.symlink_to(other)
    write_private(path, "password=secret")
    assert other.read_text() == "not ours"
    assert path.read_text() == "password=secret" and not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_private_folders(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "store"
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
