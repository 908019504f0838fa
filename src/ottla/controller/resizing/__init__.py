"""A topic gets another number of partitions: rules, znodes, the fence and the swap (ADR 53)."""
