"""The topic `clicks` becomes a table, and what was paid goes to the topic `orders`."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
BROKERS = {"kafka.bootstrap.servers": spark.conf.get("ottla.bootstrap")}

dp.create_sink("orders_topic", "ottla", {**BROKERS, "topic": "orders"})


@dp.table
def clicks() -> DataFrame:
    source = {**BROKERS, "subscribe": "clicks", "startingOffsets": "earliest"}
    records = spark.readStream.format("ottla").options(**source).load()
    return records.selectExpr(
        "from_json(cast(value as string), 'user string, paid int') as click", "timestamp as at"
    ).selectExpr("click.*", "at")


@dp.append_flow(target="orders_topic")
def orders() -> DataFrame:
    paid = spark.readStream.table("clicks").where("paid > 0")
    return paid.selectExpr("user as key", "to_json(struct(user, paid)) as value")
