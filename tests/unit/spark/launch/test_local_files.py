"""Which sessions get the classes for local files; tests/spark lets Hadoop judge what they do."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from ottla.spark.launch import local_files
from ottla.spark.launch.local_files import (
    CLASS_PATH,
    JAR,
    SETTINGS,
    SOURCE,
    SOURCE_DIGEST,
    digest,
    local_file_settings,
)


def test_a_jvm_that_is_to_be_started_gets_the_jar_behind_what_is_there() -> None:
    environment = {CLASS_PATH: "/opt/hadoop/*:/opt/more.jar"}
    assert local_file_settings(environment, None) == SETTINGS
    assert environment[CLASS_PATH] == f"/opt/hadoop/*:/opt/more.jar:{JAR}"
    local_file_settings(environment, None)
    assert environment[CLASS_PATH].count(str(JAR)) == 1, "a second session adds nothing"


def test_a_jvm_that_runs_without_the_jar_is_left_alone() -> None:
    environment: dict[str, str] = {}
    assert local_file_settings(environment, "") == {}
    assert local_file_settings(environment, "/opt/other.jar") == {}
    assert environment == {}
    assert local_file_settings(environment, f"/opt/other.jar:{JAR}") == SETTINGS


def test_a_package_in_an_archive_has_no_jar_to_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "JAR", Path("/tmp/ottla.zip/ottla/local_files.jar"))
    assert local_file_settings({}, None) == {}


def test_the_jar_was_made_of_this_source() -> None:
    with zipfile.ZipFile(JAR) as archive:
        made_of = archive.read(SOURCE_DIGEST).decode()
    assert made_of == digest(SOURCE.read_bytes()), "run tools/build_local_files.py"


def test_the_jar_has_what_the_settings_name_and_nothing_else() -> None:
    with zipfile.ZipFile(JAR) as archive:
        classes = {name for name in archive.namelist() if name != SOURCE_DIGEST}
    named = {f"{name.replace('.', '/')}.class" for name in SETTINGS.values()}
    assert named < classes
    assert all(name.startswith("ottla/spark/OttlaLocalFiles") for name in classes)


@pytest.mark.skipif(shutil.which("javac") is None, reason="no javac on this machine")
def test_compiling_it_gives_the_same_classes(tmp_path: Path) -> None:
    jars = Path(pytest.importorskip("pyspark").__file__).parent / "jars"
    (hadoop,) = map(str, jars.glob("hadoop-client-api-*.jar"))
    command = ["javac", "--release", "17", "-g:none", "-cp", hadoop, "-d", str(tmp_path)]
    compiled = subprocess.run(
        [*command, "-version", str(SOURCE)], capture_output=True, text=True, check=True
    )
    version = (compiled.stdout + compiled.stderr).split()[1]
    if version.split(".")[0] != "17":
        pytest.skip(f"javac {version} may word the same in other bytes; the jar is of 17")
    with zipfile.ZipFile(JAR) as archive:
        shipped = {n: archive.read(n) for n in archive.namelist() if n.endswith(".class")}
    assert shipped == {
        str(file.relative_to(tmp_path)): file.read_bytes() for file in tmp_path.rglob("*.class")
    }
