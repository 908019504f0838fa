"""A topic copied into another one with any number of partitions, exactly once, each key in order.

`Copier` (`copier.py`) is what commands drive; its docstring is the interface. A micro-batch is one
Spark job: `planning.py` cuts the ranges, `tasks.py` makes tasks of them, `range_copy.py` copies one
range, `range_scan.py` looks what is there, `state.py` and `folder.py` remember. `translation.py`
carries positions of groups over. Decisions: docs/adr/0052-copies-of-topics.md.
"""
