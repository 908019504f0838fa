"""Lets Spark find `format("ottla")`: it looks for packages named pyspark_* with a DefaultSource."""

from ottla.spark.data_source import OttlaSource as DefaultSource

__all__ = ["DefaultSource"]
