"""Kafka clients used by brokers, the command line and pipelines; they work on Apache Kafka too."""
