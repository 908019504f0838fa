"""The metadata stores of the conformance suite, each test on each of them."""

from __future__ import annotations

import pytest

from ottla.testing.java import ApacheZooKeeper, missing_reason
from tests.support.conformance.store_backends import APACHE_FLAGS, make_backend
from tests.support.judges import need

# The jars each Apache ZooKeeper comes out of: 3.5.9 is the one that Apache Kafka 2.8.2 ships.
APACHE_JARS = {"apache": "zookeeper-3.8", "apache-3.5.9": "kafka-2.8.2"}


@pytest.fixture(scope="package")
def apache():
    started = {}

    def start(jars):
        if jars not in started:
            started[jars] = ApacheZooKeeper(jars, flags=APACHE_FLAGS).start()
        return started[jars]

    yield start
    for server in started.values():
        server.stop()


@pytest.fixture(
    params=[
        "embedded",
        "journaled",
        "server",
        "chroot",
        pytest.param("apache", marks=pytest.mark.peers),
        pytest.param("apache-3.5.9", marks=pytest.mark.peers),
    ]
)
async def backend(request, tmp_path, apache):
    server = None
    if request.param in APACHE_JARS:
        jars = APACHE_JARS[request.param]
        need(missing_reason(jars))
        server = apache(jars)
    made = await make_backend(request.param, tmp_path / "store", server)
    made.name = request.param
    yield made
    await made.stop()


@pytest.fixture
async def store(backend):
    opened = await backend.open()
    yield opened
    await opened.close()


@pytest.fixture
async def other(backend):
    opened = await backend.open()
    yield opened
    await opened.close()
