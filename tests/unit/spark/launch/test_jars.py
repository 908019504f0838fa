"""Where the connector's jars come from, and that only the pinned ones are taken."""

import hashlib

import pytest

from ottla.spark.errors import SourceError
from ottla.spark.launch import jars


@pytest.fixture
def small_jars(monkeypatch, tmp_path):
    """Two small files stand for the four jars."""
    pinned = tuple(
        jars.Jar("g", name, "1", hashlib.sha256(name.encode()).hexdigest()) for name in ("x", "y")
    )
    monkeypatch.setattr(jars, "CONNECTOR", pinned)
    monkeypatch.setattr(jars, "WITHOUT_TOKENS", (pinned[0], pinned[1]._replace(version="0")))
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(jars.FOLDER_VARIABLE, raising=False)
    return pinned


def put(folder, pinned):
    folder.mkdir(parents=True, exist_ok=True)
    for jar in pinned:
        (folder / jar.file_name).write_text(jar.artifact)
    return folder


def test_the_named_folder_wins(small_jars, tmp_path, monkeypatch):
    put(tmp_path / "cache" / "peers" / "spark-kafka", small_jars)
    named = put(tmp_path / "mine", small_jars)
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(named))
    assert jars.connector_jars() == [named / "x-1.jar", named / "y-1.jar"]


def test_a_named_folder_without_them_is_an_error(small_jars, tmp_path, monkeypatch):
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(SourceError, match=r"does not hold x-1\.jar"):
        jars.connector_jars()


def test_another_jar_of_that_name_is_refused(small_jars, tmp_path):
    folder = put(tmp_path / "cache" / "peers" / "spark-kafka", small_jars)
    (folder / "y-1.jar").write_text("changed")
    with pytest.raises(jars.JarMismatch, match=r"y-1\.jar"):
        jars.connector_jars()


def test_maven_fills_the_cache(small_jars, tmp_path):
    """A stand-in for mvn that does what copy-dependencies would do."""
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        '#!/bin/sh\nfor a do case "$a" in -DoutputDirectory=*) out="${a#*=}";; esac; done\n'
        '/bin/mkdir -p "$out"; printf x > "$out/x-1.jar"; printf y > "$out/y-1.jar"\n'
    )
    maven.chmod(0o755)
    assert jars.connector_jars(fetch=False) is None
    folder = tmp_path / "cache" / "spark-kafka"
    assert jars.connector_settings() == {"spark.jars": f"{folder / 'x-1.jar'},{folder / 'y-1.jar'}"}
    maven.unlink()
    assert jars.connector_jars(fetch=False) is not None


def test_a_repository_without_the_token_provider(small_jars, tmp_path, caplog):
    """As some mirrors: the jar of an older Spark is taken, and its price is told."""
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text(
        '#!/bin/sh\nfor a do case "$a" in -DoutputDirectory=*) out="${a#*=}";; esac; done\n'
        '/bin/grep -q "<artifactId>y</artifactId><version>1<" "$5" && exit 1\n'
        '/bin/mkdir -p "$out"; printf x > "$out/x-1.jar"; printf y > "$out/y-0.jar"\n'
    )
    maven.chmod(0o755)
    folder = tmp_path / "cache" / "spark-kafka"
    assert jars.connector_jars() == [folder / "x-1.jar", folder / "y-0.jar"]
    assert "Maven has no g:y:1" in caplog.text and "delegation tokens" in caplog.text
    maven.unlink()
    assert jars.connector_jars(fetch=False) is not None


def test_without_maven_spark_gets_the_coordinates_of_its_own_version(small_jars, monkeypatch):
    wanted = "org.apache.spark:spark-sql-kafka-0-10_2.13:"
    assert jars.connector_settings() == {"spark.jars.packages": wanted + jars.PINNED_SPARK}
    monkeypatch.setattr(jars, "pyspark_version", lambda: "4.1.4")
    assert jars.connector_settings() == {"spark.jars.packages": wanted + "4.1.4"}


def test_another_pyspark_does_not_get_the_pinned_jars(small_jars, tmp_path, monkeypatch):
    put(tmp_path / "cache" / "peers" / "spark-kafka", small_jars)
    monkeypatch.setattr(jars, "pyspark_version", lambda: "4.1.4")
    assert jars.connector_jars() is None


def test_jars_of_another_pyspark_from_the_user_s_folder(small_jars, tmp_path, monkeypatch):
    monkeypatch.setattr(jars, "pyspark_version", lambda: "4.1.4")
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path))
    names = [
        "spark-sql-kafka-0-10_2.13-4.1.4.jar",
        "spark-token-provider-kafka-0-10_2.13-4.1.4.jar",
    ]
    names += ["kafka-clients-3.9.1.jar", "commons-pool2-2.12.1.jar"]
    for name in names[:-1]:
        (tmp_path / name).touch()
    with pytest.raises(SourceError, match=r"commons-pool2-\*\.jar"):
        jars.connector_jars()
    (tmp_path / names[-1]).touch()
    assert jars.connector_jars() == [tmp_path / name for name in names]


def test_the_pinned_jars_follow_the_installed_pyspark():
    """All of Spark's own jars are of one version, also the token provider."""
    import pyspark

    own = {jar.version for jar in jars.CONNECTOR if jar.group == "org.apache.spark"}
    assert own == {jars.PINNED_SPARK} == {pyspark.__version__}
