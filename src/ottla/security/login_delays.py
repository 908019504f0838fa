"""How long logins have to wait, by what failed before: guessing passwords gets slower and slower.

Kafka answers every refusal connection.failed.authentication.delay.ms late, the thousandth like the
first. Here the wait doubles with each failure of a user name on an address, up to ten seconds, and
until it is over a right password of that name on that address is not answered either: who guesses
on many connections at once learns nothing sooner. Names that did not fail are let in at once,
whatever their neighbours on the same address do; a name that fails elsewhere is not concerned.
Without I/O and without a clock: times come in.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

LONGEST_MS = 10_000.0
# A failure is forgotten after this time; of ten, one after the other.
FORGET_ONE_MS = 15_000.0
# As many failures of different names as an address has free; then they cost more, too.
FREE_FAILURES_OF_ADDRESS = 20
# Answers that are held back at the same time; others are closed at once, without one.
MAX_HELD_OF_NAME = 64
MAX_HELD_OF_ADDRESS = 256
# Names and addresses that are remembered; those that failed longest ago go first.
MAX_REMEMBERED = 10_000
_MOST_DOUBLINGS = 20


class _Failures:
    """Of one name on one address, or of one address."""

    __slots__ = ("_count", "_held_until", "_last_ms", "open_at_ms")

    def __init__(self) -> None:
        self._count = 0
        self._last_ms = 0.0
        self._held_until: list[float] = []
        # Until then nobody of this name is answered.
        self.open_at_ms = 0.0

    def add(self, now_ms: float, most: int) -> int:
        """One more; how many count by now."""
        forgotten = int((now_ms - self._last_ms) / FORGET_ONE_MS)
        self._count = min(max(0, self._count - forgotten) + 1, most)
        self._last_ms = now_ms
        return self._count

    def held(self, now_ms: float) -> int:
        self._held_until = [until for until in self._held_until if until > now_ms]
        return len(self._held_until)

    def hold(self, until_ms: float) -> None:
        self._held_until.append(until_ms)


class LoginDelays:
    """Of one broker, for all of its listeners."""

    def __init__(self, first_ms: float, longest_ms: float = LONGEST_MS) -> None:
        """`first_ms` is connection.failed.authentication.delay.ms; 0 switches delays off."""
        self._first_ms = first_ms
        self._longest_ms = max(longest_ms, first_ms)
        self._names: OrderedDict[Hashable, _Failures] = OrderedDict()
        self._addresses: OrderedDict[Hashable, _Failures] = OrderedDict()

    def after_failure(self, address: str, name: str, now_ms: float) -> float | None:
        """How long the refusal is held back, in milliseconds; None where too many are already."""
        if self._first_ms <= 0 or not name:
            # Whoever has not said a name has not guessed a password either.
            return max(self._first_ms, 0.0)
        network = network_of(address)
        of_address = _remember(self._addresses, network)
        of_name = _remember(self._names, (network, name))
        if self._is_full(of_name, of_address, now_ms):
            return None
        failures = of_name.add(now_ms, _MOST_DOUBLINGS)
        spread = of_address.add(now_ms, FREE_FAILURES_OF_ADDRESS + _MOST_DOUBLINGS)
        doublings = max(failures - 1, spread - FREE_FAILURES_OF_ADDRESS)
        wait_ms = min(self._first_ms * float(1 << doublings), self._longest_ms)
        of_name.open_at_ms = max(of_name.open_at_ms, now_ms + wait_ms)
        of_name.hold(now_ms + wait_ms)
        of_address.hold(now_ms + wait_ms)
        return wait_ms

    def after_success(self, address: str, name: str, now_ms: float) -> float | None:
        """How long a login that is good is held back; None where too many of this name are."""
        if not self._names:
            return 0.0
        network = network_of(address)
        of_name = self._names.get((network, name))
        if of_name is None or of_name.open_at_ms <= now_ms:
            return 0.0
        if of_name.held(now_ms) >= MAX_HELD_OF_NAME:
            return None
        of_name.hold(of_name.open_at_ms)
        return of_name.open_at_ms - now_ms

    @staticmethod
    def _is_full(of_name: _Failures, of_address: _Failures, now_ms: float) -> bool:
        return (
            of_name.held(now_ms) >= MAX_HELD_OF_NAME
            or of_address.held(now_ms) >= MAX_HELD_OF_ADDRESS
        )


def _remember(table: OrderedDict[Hashable, _Failures], key: Hashable) -> _Failures:
    found = table.get(key)
    if found is None:
        found = table[key] = _Failures()
        if len(table) > MAX_REMEMBERED:
            table.popitem(last=False)
    else:
        table.move_to_end(key)
    return found


def network_of(address: str) -> str:
    """An IPv4 address, or the first half of an IPv6 one: the other half is the client's choice."""
    if ":" not in address:
        return address
    from ipaddress import IPv6Address

    try:
        parsed = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(IPv6Address(int(parsed) >> 64 << 64))
