"""Stands in for `test/service.py` of kafka-python's sources, which its sdist leaves out.

The suite starts servers of its own with it; here the server runs already, so nothing is to do.
"""

from __future__ import annotations

from typing import NoReturn


class ExternalService:
    """A broker that someone else started."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def dump_logs(self) -> None:
        """Its logs are where its owner wants them."""

    def stop(self) -> None:
        """Its owner does that."""


class SpawnedService:
    """Asked for only by tests that bring a broker of their own."""

    def __init__(self, *_: object, **__: object) -> NoReturn:
        raise RuntimeError("this run starts no servers: KAFKA_URI names the one to judge")
