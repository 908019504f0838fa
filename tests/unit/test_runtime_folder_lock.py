"""One process at a time in a data folder, whoever made the lock."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.runtime import DirInUse, FolderLock

# As a Java broker does it: the lock alone, no pid in the file.
_HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[int]:
    command = [sys.executable, "-c", _HOLDER, str(folder / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_the_pid_is_inside(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("an older and longer line\n")
    lock = FolderLock(tmp_path)
    # Not read here: closing the file would give the lock up.
    seen = subprocess.run(["cat", tmp_path / ".lock"], capture_output=True, text=True, check=True)
    assert seen.stdout == f"{os.getpid()}\n"
    lock.release()


def test_who_holds_it_is_named_whatever_the_file_says(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n")
    with held_by_another(tmp_path) as pid:
        with pytest.raises(DirInUse) as refused:
            FolderLock(tmp_path)
        assert refused.value.holder == pid
        assert f"in {tmp_path}: process {pid} is using this folder" in str(refused.value)
    FolderLock(tmp_path).release()


def test_a_process_gets_it_once_under_any_name(tmp_path: Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    lock = FolderLock(folder)
    for _ in range(2):
        with pytest.raises(DirInUse, match=r"this process .* name it once$"):
            FolderLock(link)
    # The refusals did not give it up.
    assert _another_is_refused(folder)
    lock.release()
    lock.release()
    assert not _another_is_refused(folder)


def test_a_child_has_to_take_its_own(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            FolderLock(tmp_path)
        except DirInUse as refused:
            code = 42 if refused.holder == os.getppid() else 2
        finally:
            lock.release()  # of the copy alone
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 42
    assert _another_is_refused(tmp_path)
    lock.release()


def test_a_lock_that_cannot_be_made_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(IsADirectoryError):
        FolderLock(tmp_path)
    (tmp_path / ".lock").rmdir()
    FolderLock(tmp_path).release()


def _another_is_refused(folder: Path) -> bool:
    command = [sys.executable, "-c", _HOLDER, str(folder / ".lock")]
    return subprocess.run(command, capture_output=True, input=b"", check=False).returncode != 0
