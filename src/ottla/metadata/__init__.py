"""Cluster metadata: the port to the store that holds it, and each znode with its format."""
