"""Apache Kafka's topic machinery as a Python system."""

__version__ = "0.1.0"
