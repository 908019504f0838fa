"""A pipeline on Spark Connect, in a process of its own: a session of Connect and one with a JVM do
not share one. `python -m tests.support.spark.connect_driver SERVERS FOLDER REMOTE PREFIX` prints
JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from ottla.pipelines import parse_pipeline, run_pipeline
from ottla.spark.launch.java import java_home
from ottla.spark.launch.workers import worker_python

PIPELINE = """
bootstrap_servers: {servers}
trigger: available_now
restart: {{attempts: 5, pause: 1 second}}
jobs:
  - ingest: {{format: text, path: in, topic: {{name: {prefix}.lines, partitions: 2}}}}
  - transform:
      name: counts
      from: {{lines: {prefix}.lines}}
      schema: n int not null
      sql: select n % 3 as k, count(*) as c from lines group by n % 3
      to: {prefix}.counts
      dead_letter: {prefix}.bad
  - transform:
      name: large
      from: {{lines: {prefix}.lines}}
      schema: n int not null
      sql: select n from lines where n >= 50
      to: {prefix}.large
  - archive: {{from: {prefix}.lines, path: archive, max_records_per_batch: 60}}
  - profile: {{from: {prefix}.lines}}
"""
ROUNDS = 2
LINES = 100


def main(servers: str, folder: Path, remote: str, prefix: str) -> dict[str, Any]:
    home = java_home()
    os.environ |= {"PYSPARK_PYTHON": str(worker_python()), "SPARK_LOCAL_IP": "127.0.0.1"}
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(remote).getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (folder / "in").mkdir()
    reports = []
    for number in range(ROUNDS):
        lines = [json.dumps({"n": n}) for n in range(LINES)]
        (folder / "in" / f"{number}.txt").write_text("\n".join([*lines, "bad"]))
        text = PIPELINE.format(servers=servers, prefix=prefix)
        pipeline = parse_pipeline(text, "connect.yaml", folder)
        reports.append(run_pipeline(pipeline, spark).to_json())
    archived = spark.read.parquet(str(folder / "archive"))
    places = archived.select("partition", "offset")
    found = {
        "session": type(spark).__module__,
        "archived": archived.count(),
        "places": places.distinct().count(),
        "reports": reports,
    }
    spark.stop()
    return found


if __name__ == "__main__":
    json.dump(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]), sys.stdout)
