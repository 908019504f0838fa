"""The session's settings; nothing here starts Spark."""

import importlib
import os
import pkgutil
import sys
import zipfile
from types import SimpleNamespace

import pytest

import ottla.spark
from ottla.spark import register
from ottla.spark import session as start_session
from ottla.spark.launch import session as session_module
from ottla.spark.launch.session import SparkMissing, missing_reason

WORKER_PYTHON = "/cache/python"


class Builder:
    """Stands for SparkSession.builder and keeps what it is told."""

    def __init__(self):
        self.settings = {}

    def appName(self, name):
        self.settings["name"] = name
        return self

    def config(self, key, value):
        self.settings[key] = value
        return self

    def getOrCreate(self):
        return self.settings


@pytest.fixture
def no_jvm(monkeypatch):
    module = SimpleNamespace(SparkSession=SimpleNamespace(builder=Builder()))
    monkeypatch.setitem(sys.modules, "pyspark.sql", module)
    monkeypatch.setattr(session_module, "missing_reason", lambda: None)
    monkeypatch.setattr(session_module, "worker_python", lambda: WORKER_PYTHON)
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", "/any")


def test_local_mode_stays_on_this_machine(no_jvm):
    settings = start_session("app", conf={"spark.ui.enabled": "true"})
    assert settings["name"] == "app"
    assert settings["spark.master"] == "local[*]"
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "true", "what the caller says wins"
    assert os.environ["PYSPARK_PYTHON"] == WORKER_PYTHON
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "spark.jars" not in settings, "no jars are needed, so none are looked for"
    assert "spark.files" not in settings, "the workers have the package"


def test_a_micro_batch_that_runs_again_is_cut_into_the_same_tasks(no_jvm):
    adaptive = "spark.sql.adaptive.streaming.stateless.enabled"
    assert start_session()[adaptive] == "false"
    assert start_session(conf={adaptive: "true"})[adaptive] == "true"


def test_another_master_finds_the_driver_by_itself(no_jvm):
    settings = start_session(conf={"spark.master": "spark://host:7077"})
    assert settings["spark.master"] == "spark://host:7077"
    assert "spark.driver.host" not in settings
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "executors have no cache of ours"


def test_options_of_the_jvm_leave_the_user_s_alone(no_jvm):
    for process in ("driver", "executor"):
        default = f"spark.{process}.defaultJavaOptions"
        assert "arrow.enable_unsafe_memory_access=true" in start_session()[default]
        assert start_session(conf={default: "-Xss4m"})[default] == "-Xss4m"
        assert f"spark.{process}.extraJavaOptions" not in start_session()


def test_rows_go_to_workers_in_batches_that_fit_a_cache(no_jvm):
    limit = "spark.sql.execution.arrow.maxBytesPerBatch"
    assert start_session()[limit] == str(4 << 20)
    assert start_session(conf={limit: "64m"})[limit] == "64m"


def test_executors_of_a_cluster_are_sent_the_package(no_jvm):
    path = "spark.executorEnv.PYTHONPATH"
    settings = start_session(
        master="spark://host:7077", conf={"spark.files": "/data/model.bin", path: "/opt/lib"}
    )
    own, package = settings["spark.files"].split(",")
    assert own == "/data/model.bin"
    assert settings[path] == "ottla.zip:/opt/lib", "ours is found first"
    assert {"ottla/spark/data_source.py", "pyspark_ottla/__init__.py"} <= set(
        zipfile.ZipFile(package).namelist()
    )


def test_spark_connect_in_this_process(no_jvm):
    settings = start_session(remote="local[2]")
    assert settings["spark.remote"] == "local[2]"
    assert "spark.master" not in settings, "Spark refuses the two together"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert os.environ["PYSPARK_PYTHON"] == WORKER_PYTHON


class RemoteSession:
    """Stands for a session of either kind, and keeps what it is sent."""

    def __init__(self, module):
        type(self).__module__ = module
        self.sent = []
        self.dataSource = SimpleNamespace(register=lambda source: self.sent.append(source.name()))
        self.sparkContext = SimpleNamespace(
            addPyFile=lambda path: self.send("addPyFile", path),
            environment={"PYTHONPATH": "/mine"},
        )

    def addArtifacts(self, path, *, pyfile):
        assert pyfile
        self.send("addArtifacts", path)

    def send(self, how, path):
        self.sent.append((how, "ottla/spark/data_source.py" in zipfile.ZipFile(path).namelist()))


@pytest.mark.parametrize(
    ("module", "how"),
    [("pyspark.sql.connect.session", "addArtifacts"), ("pyspark.sql.session", "addPyFile")],
)
def test_workers_without_the_package_are_sent_it(module, how):
    spark = RemoteSession(module)
    register(spark)
    assert spark.sent == [(how, True), "ottla"]
    paths = spark.sparkContext.environment["PYTHONPATH"].split(":")
    assert paths[-1] == "/mine" and (len(paths) == 2) == (how == "addPyFile")
    spark.sent.clear()
    register(spark, send=False)
    assert spark.sent == ["ottla"]


def test_a_server_of_spark_connect_has_its_own_settings(no_jvm, monkeypatch):
    """No Java is looked for here, and nothing is set that only a server could use."""
    told = []
    monkeypatch.setattr(session_module, "java", lambda: pytest.fail("there is one at the server"))
    monkeypatch.setattr(session_module, "register", told.append)
    settings = start_session("app", remote="sc://host:15002", conf={"spark.sql.x": "1"})
    assert settings == {"name": "app", "spark.remote": "sc://host:15002", "spark.sql.x": "1"}
    assert told == [settings]


def test_the_connector_only_when_asked_for(no_jvm, monkeypatch):
    monkeypatch.setattr(session_module, "connector_settings", lambda: {"spark.jars": "a.jar"})
    assert start_session(kafka_connector=True)["spark.jars"] == "a.jar"


def test_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(session_module, "java", lambda: None)
    assert "Java 17" in missing_reason()
    with pytest.raises(SparkMissing, match="Java 17"):
        start_session()


def test_no_module_stands_in_the_way_of_the_function_that_users_import():
    for module in pkgutil.walk_packages(ottla.spark.__path__, "ottla.spark."):
        importlib.import_module(module.name)
    assert ottla.spark.session is session_module.session


def test_workers_on_this_machine_talk_over_unix_sockets_unless_told_not_to(no_jvm, monkeypatch):
    enabled = "spark.python.unix.domain.socket.enabled"
    monkeypatch.setattr(session_module, "socket_settings", lambda: {enabled: "true"})
    assert start_session()[enabled] == "true"
    assert start_session(conf={enabled: "false"})[enabled] == "false"
