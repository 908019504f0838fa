"""The four jars of Spark's own Kafka connector, for those who want `format("kafka")` too.

`format("ottla")` needs none of them, so they are looked for only when asked: a folder named by
`OTTLA_SPARK_JARS`, the cache, Maven with the user's settings. Where all fail Spark itself gets the
coordinates (`spark.jars.packages`). Jars from a folder or from Maven must have the pinned SHA-256.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from ottla.spark.errors import SourceError
from ottla.spark.launch.launchers import cache_folder

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


# The rest of what the connector needs is inside PySpark.
CONNECTOR = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.0.0",
        "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
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
    return {
        "spark.jars.packages": ",".join(
            f"{jar.group}:{jar.artifact}:{jar.version}" for jar in CONNECTOR
        )
    }


def connector_jars(*, fetch: bool = True) -> list[Path] | None:
    """The jars on this machine, with `fetch` also through Maven; None where they are not."""
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        found = _jars_in(Path(named))
        if found is None:
            raise SourceError(
                f"{FOLDER_VARIABLE}={named} does not hold "
                f"{', '.join(jar.file_name for jar in CONNECTOR)}"
            )
        return found
    own = cache_folder() / "spark-kafka"
    # `make peers` brings the same jars.
    for folder in (cache_folder() / "peers" / "spark-kafka", own):
        found = _jars_in(folder)
        if found is not None:
            return found
    return _fetch(own) if fetch else None


def _jars_in(folder: Path) -> list[Path] | None:
    paths = [folder / jar.file_name for jar in CONNECTOR]
    if not all(path.is_file() for path in paths):
        return None
    for path, jar in zip(paths, CONNECTOR, strict=True):
        _verify(path, jar)
    return paths


def _verify(path: Path, jar: Jar) -> None:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    if digest != jar.sha256:
        raise JarMismatch(f"{path} is not the jar that was pinned: SHA-256 {digest}")


def _fetch(target: Path) -> list[Path] | None:
    maven = shutil.which("mvn")
    if maven is None:
        return None
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-kafka.", dir=target.parent) as scratch:
        pom, fresh = Path(scratch) / "pom.xml", Path(scratch) / "fresh"
        pom.write_text(_pom())
        command = [maven, "-B", "-q", "-f", str(pom), _GOAL]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={fresh}"]
        try:
            subprocess.run(command, capture_output=True, timeout=_MAVEN_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        if _jars_in(fresh) is None:
            return None
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
    return _jars_in(target)


def _pom() -> str:
    nothing_else = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
    )
    dependencies = "".join(
        f"<dependency><groupId>{jar.group}</groupId><artifactId>{jar.artifact}</artifactId>"
        f"<version>{jar.version}</version>{nothing_else}</dependency>"
        for jar in CONNECTOR
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>spark-kafka</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>\n"
    )
