"""What is wrong with a pipeline, found before it runs: what needs no Spark first, then plans."""
