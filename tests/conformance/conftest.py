"""The metadata stores of the conformance suite, each test on each of them."""

from __future__ import annotations

import pytest

from ottla.testing.java import ApacheZooKeeper, missing_reason
from tests.support.conformance.store_backends import make_backend
from tests.support.judges import need


@pytest.fixture(scope="package")
def apache():
    started = []

    def start():
        if not started:
            started.append(ApacheZooKeeper().start())
        return started[0]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(
    params=[
        "embedded",
        "journaled",
        "server",
        "chroot",
        pytest.param("apache", marks=pytest.mark.peers),
    ]
)
async def backend(request, tmp_path, apache):
    server = None
    if request.param == "apache":
        need(missing_reason("zookeeper-3.8"))
        server = apache()
    made = await make_backend(request.param, tmp_path / "store", server)
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
