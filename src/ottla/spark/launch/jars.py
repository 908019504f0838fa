"""The four jars of Spark's own Kafka connector, for those who want `format("kafka")` too.

`format("ottla")` needs none of them, so they are looked for only when asked: a folder named by
`OTTLA_SPARK_JARS`, the cache, Maven with the user's settings. Where all fail, and for another
PySpark than the one whose jars are pinned, Spark itself gets the coordinates
(`spark.jars.packages`), of the PySpark that is installed. Pinned jars must have their SHA-256.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.spark.errors import SourceError
from ottla.spark.launch.launchers import cache_folder
from ottla.spark.launch.pyspark_version import pyspark_version

logger = logging.getLogger("ottla.spark")

FOLDER_VARIABLE = "OTTLA_SPARK_JARS"
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_MAVEN_TIMEOUT_S = 600.0


class Jar(NamedTuple):
    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


_SPARK = "org.apache.spark"
_CONNECTOR_ARTIFACT = "spark-sql-kafka-0-10_2.13"
_TOKENS_ARTIFACT = "spark-token-provider-kafka-0-10_2.13"
# The PySpark that the pinned jars belong to.
PINNED_SPARK = "4.2.0"
_CONNECTOR_JAR = Jar(
    _SPARK,
    _CONNECTOR_ARTIFACT,
    PINNED_SPARK,
    "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
)
_CLIENT_JAR = Jar(
    "org.apache.kafka",
    "kafka-clients",
    "3.9.2",
    "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
)
# Versions are those of Spark's own pom. The rest of what the connector needs is inside PySpark.
CONNECTOR = (
    _CONNECTOR_JAR,
    Jar(
        _SPARK,
        _TOKENS_ARTIFACT,
        PINNED_SPARK,
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    _CLIENT_JAR,
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.1",
        "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    ),
)
# For repositories that have no token provider since 4.0.0. Reading and writing need next to nothing
# of it. Kafka's delegation tokens do, and this one looks for classes that Spark 4.1 moved
# (SPARK-53064): where no token can be had it ends with a NoClassDefFoundError.
WITHOUT_TOKENS = (
    _CONNECTOR_JAR,
    Jar(
        _SPARK,
        _TOKENS_ARTIFACT,
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    _CLIENT_JAR,
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.12.0",
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    ),
)


class JarMismatch(SourceError):
    """A jar that is not the one that was pinned."""


def connector_settings(*, fetch: bool = True) -> dict[str, str]:
    """The settings of a session that make `format("kafka")` work."""
    jars = connector_jars(fetch=fetch)
    if jars is not None:
        return {"spark.jars": ",".join(map(str, jars))}
    # Spark resolves what it needs: the versions of its own pom.
    return {"spark.jars.packages": f"{_SPARK}:{_CONNECTOR_ARTIFACT}:{pyspark_version()}"}


def connector_jars(*, fetch: bool = True) -> list[Path] | None:
    """The jars on this machine, with `fetch` also through Maven; None where they are not, and for
    a PySpark whose jars are not pinned."""
    version = pyspark_version()
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return _jars_of(Path(named), version)
    if version != PINNED_SPARK:
        return None
    own = cache_folder() / "spark-kafka"
    for pinned in (CONNECTOR, WITHOUT_TOKENS):
        # `make peers` brings the same jars.
        for folder in (cache_folder() / "peers" / "spark-kafka", own):
            found = _jars_in(folder, pinned)
            if found is not None:
                return found
    if not fetch:
        return None
    found = _fetch(own, CONNECTOR)
    if found is not None:
        return found
    found = _fetch(own, WITHOUT_TOKENS)
    if found is not None:
        logger.warning(
            "Maven has no %s: format kafka works, but do not use delegation tokens with it",
            CONNECTOR[1].coordinates,
        )
    return found


def _jars_of(named: Path, version: str) -> list[Path]:
    """In the folder that the user named. Raises SourceError where they are not there."""
    if version == PINNED_SPARK:
        for pinned in (CONNECTOR, WITHOUT_TOKENS):
            found = _jars_in(named, pinned)
            if found is not None:
                return found
        wanted = [jar.file_name for jar in CONNECTOR]
    else:  # nobody has pinned these
        wanted = [f"{name}-{version}.jar" for name in (_CONNECTOR_ARTIFACT, _TOKENS_ARTIFACT)]
        wanted += ["kafka-clients-*.jar", "commons-pool2-*.jar"]
        there = [sorted(named.glob(pattern)) for pattern in wanted]
        if all(len(paths) == 1 for paths in there):
            return [paths[0] for paths in there]
    raise SourceError(f"{FOLDER_VARIABLE}={named} does not hold {', '.join(wanted)}")


def _jars_in(folder: Path, pinned: Sequence[Jar]) -> list[Path] | None:
    paths = [folder / jar.file_name for jar in pinned]
    if not all(path.is_file() for path in paths):
        return None
    for path, jar in zip(paths, pinned, strict=True):
        _verify(path, jar)
    return paths


def _verify(path: Path, jar: Jar) -> None:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != jar.sha256:
        raise JarMismatch(f"{path} is not the jar that was pinned: SHA-256 {digest}")


def _fetch(target: Path, pinned: Sequence[Jar]) -> list[Path] | None:
    maven = shutil.which("mvn")
    if maven is None:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-kafka.", dir=target.parent) as scratch:
        pom, fresh = Path(scratch) / "pom.xml", Path(scratch) / "fresh"
        pom.write_text(_pom(pinned))
        command = [maven, "-B", "-q", "-f", str(pom), _GOAL]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
        try:
            subprocess.run(command, capture_output=True, timeout=_MAVEN_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        if _jars_in(fresh, pinned) is None:
            return None
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    return _jars_in(target, pinned)


def _pom(pinned: Sequence[Jar]) -> str:
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{nothing_else}</dependency>"
        for jar in pinned
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )
