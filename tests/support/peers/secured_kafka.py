"""Apache Kafka with SASL for clients and the authoriser on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from ottla.testing.cluster import free_ports
from ottla.testing.java import ApacheKafka, brokers_known
from tests.support.peers.java_tools import need_jars

Tool = Callable[..., subprocess.CompletedProcess[str]]


class SecuredKafka(ApacheKafka):
    """One broker; its readiness is asked on the listener without SASL."""

    internal_port = 0

    def _knows_all(self, port: int) -> bool:
        return brokers_known(self.internal_port) >= 1


@contextmanager
def secured_kafka(
    zookeeper: str, settings: Callable[[int, int], Mapping[str, str]]
) -> Iterator[SecuredKafka]:
    """Apache Kafka 2.8.2 with `settings` of two ports: `internal_port` and the next, for clients.
    Skips where the jars are missing."""
    need_jars("kafka-2.8.2")
    internal = free_ports(2)
    broker = SecuredKafka(zookeeper, overrides=dict(settings(internal, internal + 1)))
    broker.internal_port = internal
    with broker:
        yield broker
