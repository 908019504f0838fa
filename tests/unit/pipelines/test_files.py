"""Files of this machine, as Hadoop's client would leave them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines import SpecError
from ottla.pipelines.files import LocalFiles, file_store, for_spark, local_path


def test_paths_of_this_machine_and_of_others():
    assert (
        str(local_path("/a")) == str(local_path("file:///a")) == str(local_path("file:/a")) == "/a"
    )
    assert local_path("hdfs://h/a") is None
    assert for_spark("/a b") == "file:///a b"
    assert for_spark("s3a://b/c") == "s3a://b/c"
    assert for_spark("file:/a") == "file:/a"
    assert for_spark("./a") == f"file://{Path.cwd()}/a", "not the machine called '.'"


def test_other_file_systems_need_a_session_with_a_jvm():
    class Session:
        pass

    Session.__module__ = "pyspark.sql.connect.session"
    for spark in (None, Session()):
        with pytest.raises(SpecError, match=r"^hdfs://h/a: through Spark Connect only paths"):
            file_store(spark, "hdfs://h/a")


def test_checksums_go_with_their_files(tmp_path):
    """Hadoop reads a file only where the checksum beside it fits."""
    files = LocalFiles(tmp_path)
    (tmp_path / "a").write_text("new")
    (tmp_path / ".a.crc").write_text("of new")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "b").write_text("old")
    (tmp_path / "d" / ".b.crc").write_text("of old")
    files.move(f"{tmp_path}/a", f"{tmp_path}/d/b")
    assert (tmp_path / "d" / "b").read_text() == "new"
    assert (tmp_path / "d" / ".b.crc").read_text() == "of new"
    (tmp_path / "c").write_text("newer, without a checksum")
    files.move(f"{tmp_path}/c", f"{tmp_path}/d/b")
    assert not (tmp_path / "d" / ".b.crc").exists()
    (tmp_path / "d" / ".b.crc").write_text("x")
    files.remove(f"{tmp_path}/d/b")
    files.remove(f"{tmp_path}/d/b")
    assert list((tmp_path / "d").iterdir()) == []


def test_what_is_hidden_is_passed_over(tmp_path):
    files = LocalFiles(tmp_path)
    for name in ("x/1", "x/_staging/2", "x/.3", "y/4"):
        files.write_text(f"{tmp_path}/{name}", name)
    assert [(f.name, f.size) for f in files.walk(f"{tmp_path}")] == [("1", 3), ("4", 3)]
    assert files.folders(files.root) == ["x", "y"]
    assert files.folders(f"{tmp_path}/x/1") == files.folders(f"{tmp_path}/no") == []
    assert list(files.walk(f"{tmp_path}/no")) == []
    assert files.read_text(f"{tmp_path}/y/4") == "y/4"
