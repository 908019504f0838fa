"""A streaming job: counts views by page from one topic into another."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming import StreamingQuery


def visits(records: DataFrame) -> DataFrame:
    """The transform: plain DataFrames in and out, so that it can be tested without topics."""
    view = f.from_json(f.col("value").cast("string"), "user string, page string")
    pages = records.select(view.alias("view")).where("view.page is not null")
    return pages.selectExpr("view.page as key", "to_json(view) as value")


def start(spark: SparkSession, brokers: str, checkpoint: str) -> StreamingQuery:
    connect = {"kafka.bootstrap.servers": brokers}
    source = {**connect, "subscribe": "views", "startingOffsets": "earliest"}
    records = spark.readStream.format("ottla").options(**source).load()
    writer = visits(records).writeStream.format("ottla").options(**connect, topic="pages")
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
