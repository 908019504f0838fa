"""Topics and pipelines for tests on Spark, and processes that get killed."""
