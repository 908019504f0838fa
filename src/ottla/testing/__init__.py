"""A real cluster for tests: `Cluster`, and the pytest fixtures in `ottla.testing.plugin`."""

from ottla.testing.cluster import Cluster, ProcessCluster

__all__ = ["Cluster", "ProcessCluster"]
