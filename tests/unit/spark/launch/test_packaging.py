"""The package for executors: everything, and usable as it is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import ottla
from ottla.spark.launch.packaging import own_archive, write_package

SOURCES = Path(ottla.__file__).parent


def test_every_folder_is_in_it(tmp_path: Path) -> None:
    names = zipfile.ZipFile(write_package(tmp_path / "p.zip")).namelist()
    modules = {f"ottla/{path.relative_to(SOURCES)}" for path in SOURCES.rglob("*.py")}
    assert modules <= set(names)
    assert {f"ottla/spark/{room}/__init__.py" for room in ("source", "sink", "launch")} <= modules
    assert not [name for name in names if "__pycache__" in name]


def test_the_data_source_comes_from_it(tmp_path: Path) -> None:
    package = write_package(tmp_path / "p.zip")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import pyspark_ottla, ottla.spark.sink.task_writer, ottla.spark.source.range_reader;"
        "from ottla.wire import messages as m; m.ProduceRequest().encode(9);"
        "from ottla.spark.launch.packaging import own_archive;"
        "print(pyspark_ottla.DefaultSource.name(), ottla.__file__, own_archive())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(package)], capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == ["ottla", str(package / "ottla/__init__.py"), str(package)]
    assert own_archive() is None


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (write_package(tmp_path / name).read_bytes() for name in ("a.zip", "b.zip"))
    assert first == second
