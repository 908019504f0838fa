"""Apache Kafka with SASL for clients and the authoriser on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from ottla.testing.java import ApacheKafka, brokers_known

Tool = Callable[..., subprocess.CompletedProcess[str]]


class SecuredKafka(ApacheKafka):
    """One broker; its readiness is asked on the listener without SASL."""

    internal_port = 0

    def _knows_all(self, port: int) -> bool:
        return brokers_known(self.internal_port) >= 1
