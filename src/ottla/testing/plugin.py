"""pytest fixtures, found by pytest through the entry point `ottla`. docs/testing.md has an example.

def test_my_job(ottla_cluster, ottla_spark, ottla_topic):
    run_job(ottla_spark, ottla_cluster.bootstrap_servers, ottla_topic)
"""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing.cluster import Cluster


BROKERS_VARIABLE = "OTTLA_TEST_BROKERS"
OVERRIDES_VARIABLE = "OTTLA_TEST_OVERRIDES"
REQUIRE_SPARK_VARIABLE = "OTTLA_REQUIRE_SPARK"
MAX_BROKERS = 32
MAX_TOPIC_WORDS = 200  # a name has up to 249 characters


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "ottla_brokers", f"brokers of ottla_cluster; {BROKERS_VARIABLE} wins", default="3"
    )
    parser.addini(
        "ottla_overrides",
        f"key=value settings of the brokers of ottla_cluster; {OVERRIDES_VARIABLE} wins",
        type="linelist",
        default=[],
    )


def broker_count(configured: str, environment: Mapping[str, str]) -> int:
    text = environment.get(BROKERS_VARIABLE) or configured
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_BROKERS):
        name = BROKERS_VARIABLE if environment.get(BROKERS_VARIABLE) else "ottla_brokers"
        raise pytest.UsageError(f"{name}: {text!r} is not a number from 1 to {MAX_BROKERS}")
    return int(text)


def broker_overrides(lines: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Of the ini file, then of the environment: the words of a shell, as values may have spaces."""
    settings = {}
    for word in (*lines, *shlex.split(environment.get(OVERRIDES_VARIABLE, ""))):
        name, equals, value = word.partition("=")
        if not (name.strip() and equals):
            raise pytest.UsageError(f"settings of ottla_cluster are key=value, not {word!r}")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def ottla_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """Three brokers inside the test process, or as the ini file says; shared by the session."""
    # Imported here: the plugin is loaded in every pytest run of the environment.
    from ottla.testing.cluster import Cluster

    brokers = broker_count(pytestconfig.getini("ottla_brokers"), os.environ)
    overrides = broker_overrides(pytestconfig.getini("ottla_overrides"), os.environ)
    with Cluster(brokers=brokers, overrides=overrides) as cluster:
        yield cluster


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has: the test's own and a few drawn characters."""
    words = re.sub(r"[^\w-]+", "-", request.node.name, flags=re.ASCII).strip("-")
    return f"{words[:MAX_TOPIC_WORDS]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def ottla_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for all tests, with `format("ottla")`; skips where Spark or Java is
    missing, or fails with OTTLA_REQUIRE_SPARK=1. A session that the tests have already is used,
    and left as it is."""
    from ottla.spark.launch.session import missing_reason, session, stop_session

    reason = missing_reason()
    if reason is not None:
        required = os.environ.get(REQUIRE_SPARK_VARIABLE, "") not in ("", "0")
        (pytest.fail if required else pytest.skip)(reason)
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    folder = tmp_path_factory.mktemp("ottla-spark")
    settings = {
        "spark.driver.memory": "1g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        # A test's few rows need no 200 tasks.
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = session("ottla-tests", master="local[2]", conf=settings)
    yield spark
    stop_session(spark)
