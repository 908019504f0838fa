"""A streaming query that goes on over resizes, for a test that kills it: `python stream_driver.py
SERVERS TOPIC CHECKPOINT OUT` appends every value to a file, a line each."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from ottla.spark.launch.session import session


def main(servers: str, topic: str, checkpoint: str, out: str) -> None:
    def see(rows: DataFrame, _: int) -> None:
        values = [bytes(row.value).decode() for row in rows.select("value").collect()]
        with Path(out).open("a") as file:
            file.write("".join(f"{value}\n" for value in values))

    spark = session("ottla-killed", master="local[2]", conf={"spark.ui.enabled": "false"})
    stream = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("minRecordsPerPartition", "100000")
        .option("onTopicRecreated", "continue")
        .option("kafka.group.id", f"{topic}-stream")
        .load()
    )
    query = stream.writeStream.foreachBatch(see).option("checkpointLocation", checkpoint).start()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
