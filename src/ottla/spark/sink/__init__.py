"""Writing: what the tasks of a query do, at least once or exactly once."""
