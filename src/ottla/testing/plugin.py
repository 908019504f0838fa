"""pytest fixtures, found by pytest through the entry point `ottla`.

def test_my_job(ottla_cluster):
    run_job(bootstrap_servers=ottla_cluster.bootstrap_servers)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster


@pytest.fixture(scope="session")
def ottla_cluster() -> Iterator[Cluster]:
    """Three brokers inside the test process, shared by the whole session."""
    # Imported here: the plugin is loaded in every pytest run of the environment.
    from ottla.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster
