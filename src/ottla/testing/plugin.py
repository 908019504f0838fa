"""pytest fixtures, found by pytest through the entry point `ottla`. docs/testing.md has an example.

def test_my_job(ottla_cluster, ottla_spark):
    run_job(ottla_spark, bootstrap_servers=ottla_cluster.bootstrap_servers)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing.cluster import Cluster


@pytest.fixture(scope="session")
def ottla_cluster() -> Iterator[Cluster]:
    """Three brokers inside the test process, shared by the whole session."""
    # Imported here: the plugin is loaded in every pytest run of the environment.
    from ottla.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ottla_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark session for all tests, with `format("ottla")`; skips where Spark or Java is
    missing. A session that the tests have already is used, and left as it is."""
    from ottla.spark.launch.session import missing_reason, session, stop_session

    reason = missing_reason()
    if reason is not None:
        pytest.skip(reason)
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
