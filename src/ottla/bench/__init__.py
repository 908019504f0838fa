"""Benchmarks that run on this machine, each beside a peer where one is there."""
