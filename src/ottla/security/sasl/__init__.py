"""SASL without I/O: the mechanisms, both sides of each, and the order of steps on a connection."""
