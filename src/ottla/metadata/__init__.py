"""Cluster metadata: the znodes and the store that holds them."""
