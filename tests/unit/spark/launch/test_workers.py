"""The script that starts Spark's Python workers with a shorter path."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.launch import workers
from ottla.spark.launch.workers import worker_python

SPARK = "/opt/spark home"
LOOK = "import json, os, sys; print(json.dumps([os.environ['PYTHONPATH'], sys.argv[1:]]))"


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """PySpark as a package of this environment; the folder that it is in."""
    package = tmp_path / "site" / "pyspark"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    spec = importlib.util.spec_from_file_location("pyspark", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(workers.site, "getsitepackages", lambda: [str(package.parent)])
    return package


def test_spark_s_archives_are_not_on_a_worker_s_path(installed):
    python = worker_python()
    assert python != Path(sys.executable)
    entries = [
        f"{SPARK}/python/lib/pyspark.zip",
        f"{SPARK}/python/lib/py4j-0.10.9.9-src.zip",
        f"{SPARK}/jars/spark-core_2.13-4.2.0.jar",
        "/home/me/my lib",
        "ottla.zip",
        "/home/me/*",
    ]
    answer = subprocess.run(
        [python, "-c", LOOK, "two words", "*"],
        env={**os.environ, "SPARK_HOME": SPARK, "PYTHONPATH": ":".join(entries)},
        capture_output=True,
        check=True,
        timeout=60,
    )
    path, arguments = json.loads(answer.stdout)
    assert path.split(":") == ["/home/me/my lib", "ottla.zip", "/home/me/*"]
    assert arguments == ["two words", "*"]


def test_the_script_is_written_once(installed):
    first = worker_python()
    written = first.stat().st_mtime_ns
    assert worker_python() == first
    assert first.stat().st_mtime_ns == written
    first.write_text("#!/bin/sh\n")
    assert "PYTHONPATH" in worker_python().read_text(), "one of an earlier version is replaced"


def test_another_spark_than_the_installed_one_brings_its_own_libraries(installed, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", SPARK)
    assert worker_python() == Path(sys.executable)
    monkeypatch.setenv("SPARK_HOME", str(installed))
    assert worker_python() != Path(sys.executable)


def test_a_pyspark_that_only_the_driver_s_path_has_is_not_left_to_workers(installed, monkeypatch):
    monkeypatch.setattr(workers.site, "getsitepackages", list)
    assert worker_python() == Path(sys.executable)


def test_without_a_place_for_the_script_workers_start_as_ever(installed, tmp_path):
    (tmp_path / "cache").touch()
    assert worker_python() == Path(sys.executable)


def _module(folder: Path, name: str, text: str) -> None:
    path = folder.joinpath(*name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    for package in path.relative_to(folder).parents:
        (folder / package / "__init__.py").touch()
    path.write_text(text)


def _started(python: Path, folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        [python, *arguments],
        env={**os.environ, "SPARK_HOME": SPARK, "PYTHONPATH": str(folder)},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return answer.stdout.strip()


def test_the_daemon_is_the_one_that_imports_beforehand(installed, tmp_path):
    python = worker_python()
    said = "def main():\n    import sys\n    print('ours', sys.argv[1:])\n"
    _module(tmp_path / "fake", "ottla.spark.launch.daemon", said)
    _module(tmp_path / "fake", "pyspark.worker", "print('a worker')")
    started = _started(python, tmp_path / "fake", "-m", "pyspark.daemon", "pyspark.worker")
    assert started == "ours ['pyspark.worker']"
    assert _started(python, tmp_path / "fake", "-m", "pyspark.worker") == "a worker"


def test_an_environment_without_this_package_has_spark_s_own_daemon(installed, tmp_path):
    _module(tmp_path / "fake", "ottla.other", "")
    said = "def manager():\n    import sys\n    print('spark', sys.argv[1:])\n"
    _module(tmp_path / "fake", "pyspark.daemon", said)
    started = _started(worker_python(), tmp_path / "fake", "-m", "pyspark.daemon", "pyspark.worker")
    assert started == "spark ['pyspark.worker']"


@pytest.fixture
def own_folder(monkeypatch, tmp_path):
    workers._socket_folder.cache_clear()
    monkeypatch.setattr(workers, "mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr(workers.sys, "platform", "linux")
    yield tmp_path
    workers._socket_folder.cache_clear()


def test_workers_of_this_script_talk_over_unix_sockets(installed, own_folder, monkeypatch):
    monkeypatch.setattr(workers, "_MAX_SOCKET_FOLDER", len(str(own_folder)))
    assert workers.socket_settings() == {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(own_folder),
    }


def test_a_path_that_is_too_long_for_sockets_is_not_used(installed, own_folder, monkeypatch):
    monkeypatch.setattr(workers, "_MAX_SOCKET_FOLDER", len(str(own_folder)) - 1)
    assert workers.socket_settings() == {}


def test_other_workers_and_systems_have_spark_s_own_sockets(installed, own_folder, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", SPARK)
    assert workers.socket_settings() == {}
    monkeypatch.delenv("SPARK_HOME")
    monkeypatch.setattr(workers.sys, "platform", "darwin")
    assert workers.socket_settings() == {}


def test_nobody_else_may_look_into_the_folder_of_the_sockets(installed):
    workers._socket_folder.cache_clear()
    folder = Path(workers._socket_folder())
    assert folder.stat().st_mode & 0o077 == 0
    folder.rmdir()
    workers._socket_folder.cache_clear()
