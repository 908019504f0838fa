"""How many connections there may be: in all and of one address. Pure."""

from __future__ import annotations

from collections import Counter

MAX_CONNECTIONS = 10_000
# maxClientCnxns, with ZooKeeper's default; 0 is as many as there are places.
MAX_CLIENT_CONNECTIONS = 60


class Admission:
    def __init__(self, total: int = MAX_CONNECTIONS, of_one: int = MAX_CLIENT_CONNECTIONS) -> None:
        self._total = total
        self._of_one = of_one
        self._hosts: Counter[str] = Counter()
        self._count = 0

    def admit(self, host: str) -> str | None:
        """Counts a connection in, or says why there is no place for it."""
        if self._count >= self._total:
            return f"{self._total} connections are open, which is the limit"
        if self._of_one and self._hosts[host] >= self._of_one:
            return f"{host} has {self._of_one} connections, which is the limit (maxClientCnxns)"
        self._count += 1
        self._hosts[host] += 1
        return None

    def release(self, host: str) -> None:
        """One that was counted in is gone."""
        self._count -= 1
        self._hosts[host] -= 1
        if not self._hosts[host]:
            del self._hosts[host]
