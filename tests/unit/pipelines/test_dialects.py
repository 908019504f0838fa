"""Pipelines keep away from what only a session with a JVM has."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

from ottla import pipelines
from ottla.pipelines.dialects import hide_settings, is_connect, renew_workers
from ottla.pipelines.spec_secrets import Secrets

FOLDER = Path(pipelines.__file__).parent
# Py4J's, and what a session of Spark Connect refuses.
JVM_ONLY = {"_jvm", "_jsc", "_jdf", "_jsparkSession", "_gateway", "sparkContext", "rdd"}
# The files of HDFS and object stores, for sessions that have a JVM; and the one place that knows
# both kinds of sessions.
MAY = {
    "files.py": {"_jvm", "_jsc", "sparkContext"},
    "dialects.py": {"sparkContext"},
    # The address of Spark's own page, or none.
    "announcement.py": {"sparkContext"},
}


def test_no_job_asks_a_jvm():
    found = {}
    for path in FOLDER.rglob("*.py"):
        names = {
            n.attr for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Attribute)
        }
        if names & JVM_ONLY:
            found[path.name] = names & JVM_ONLY
    assert found == MAY


def test_the_kind_of_a_session():
    class Session:
        pass

    for module, connect in (("pyspark.sql.connect.session", True), ("pyspark.sql.session", False)):
        Session.__module__ = module
        assert is_connect(Session()) is connect


def test_workers_get_another_daemon_where_spark_asks_a_dead_one():
    environment = {}
    spark = SimpleNamespace(sparkContext=SimpleNamespace(environment=environment))
    crashed = "Python worker exited unexpectedly (crashed)"
    renew_workers(spark, RuntimeError(crashed))
    assert environment == {}
    early = "EOFException ... at org.apache.spark.api.python.PythonWorkerFactory.startDaemon"
    later = "java.lang.NullPointerException at ...PythonWorkerFactory.createThroughDaemon"
    for number, text in enumerate((early, later), 1):
        renew_workers(spark, RuntimeError(text))
        assert list(environment.values()) == [str(number)]


def test_settings_with_secrets_are_added_to_those_that_spark_hides():
    kept = {}
    conf = SimpleNamespace(get=kept.get, set=kept.__setitem__)
    spark = SimpleNamespace(conf=conf)
    hide_settings(spark, Secrets())
    assert kept == {}
    for _ in range(2):
        hide_settings(spark, Secrets((), ("kafka.ssl.keystore.key", "token.x")))
    assert kept == {"spark.sql.redaction.options.regex": r"(?i)url|ssl\.keystore\.key|token\.x"}
