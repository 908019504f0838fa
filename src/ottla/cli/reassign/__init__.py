"""`ottla reassign`: kafka-reassign-partitions."""
