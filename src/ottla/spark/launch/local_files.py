"""Hadoop's files of this machine without a process for each of them (`OttlaLocalFiles.java`).

Hadoop has `chmod` and `readlink` do what its native library, which PySpark lacks, would do: twenty
processes in each micro-batch, for the two small files that Spark writes to the checkpoint, and two
for each Parquet file. The classes in the jar do the same in Java. They are for the scheme `file`
alone; other file systems are not touched.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import MutableMapping
from pathlib import Path

SOURCE = Path(__file__).with_name("OttlaLocalFiles.java")
JAR = Path(__file__).with_name("local_files.jar")
# What the jar was made of.
SOURCE_DIGEST = "META-INF/source.sha256"
# The last part of the class path of any JVM that Spark starts (AbstractCommandBuilder). A setting
# (spark.driver.extraClassPath) would take the place of the one in the user's spark-defaults.conf.
CLASS_PATH = "SPARK_DIST_CLASSPATH"
SETTINGS = {
    "spark.hadoop.fs.file.impl": "ottla.spark.OttlaLocalFiles",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "ottla.spark.OttlaLocalFiles$Context",
}


def digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


def local_file_settings(
    environment: MutableMapping[str, str], jvm_class_path: str | None
) -> dict[str, str]:
    """Settings of a session in local mode; puts the jar on the class path of the JVM to be started.
    `jvm_class_path` is that of one that runs already: without the jar it must do as it is."""
    if os.name != "posix" or not JAR.is_file():  # imported from an archive
        return {}
    if jvm_class_path is not None:
        return SETTINGS if str(JAR) in jvm_class_path.split(os.pathsep) else {}
    parts = [part for part in environment.get(CLASS_PATH, "").split(os.pathsep) if part]
    if str(JAR) not in parts:
        environment[CLASS_PATH] = os.pathsep.join([*parts, str(JAR)])
    return SETTINGS


def running_class_path() -> str | None:
    """What the JVM of this process was given in CLASS_PATH; None where it is not started yet."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        return gateway.jvm.System.getenv(CLASS_PATH) or ""
    # spark-submit has started it before this program.
    return "" if "PYSPARK_GATEWAY_PORT" in os.environ else None
