"""Values of records as columns: JSON to Arrow, with the meaning of Spark's `from_json`."""
