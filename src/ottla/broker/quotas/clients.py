"""Quotas of clients: bytes produced, bytes fetched, time of the broker (ClientQuotaManager, KIP-13,
KIP-124, KIP-55).

A client above its rate is answered at once, told how long to wait, and its connection is not read
for that long. A consumer that is above its rate already gets no records either, so that waits stay
short however many connections share a quota. Where no quota of a kind is set nothing is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.quotas.entities import Entity, StoredQuotas, resolve
from ottla.broker.quotas.rate_meter import RateMeter, Window, throttle_ms
from ottla.config.definitions import INT_MAX
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.entity_configs import sanitize

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Clock

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
KINDS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
UNLIMITED = (1 << 63) - 1
# The clients that were heard of longest ago are forgotten, and with them what they used.
MAX_CLIENTS = 10_000
# And those that have been silent for this long
# (ClientQuotaManager.InactiveSensorExpirationTimeSeconds).
SILENT_MS = 3_600_000.0
_PRODUCE, _FETCH = 0, 1
# What brokers ask of each other, and what comes before a client is known, takes no client's time.
_OF_FETCHERS = frozenset({2, 23})  # ListOffsets and OffsetForLeaderEpoch
_EXEMPT = frozenset({4, 5, 6, 7, 17, 27, 36, 56, 57, 58, 67})


class FetchAllowance(NamedTuple):
    """What a consumer may have now: no more than so many bytes, or nothing for a while."""

    max_bytes: int = INT_MAX
    wait_ms: int = 0


class Spending(NamedTuple):
    """What a client spent with one request."""

    principal: str
    client_id: str | None
    api_key: int
    request: Any
    size_bytes: int = 0
    # How long the broker has worked on it.
    busy_ms: float = 0.0


class Use(NamedTuple):
    """The rate of one kind at which an owner of a quota uses it, and all waits so far."""

    kind: str
    owner: Entity
    rate: float
    waited_ms: int


class ClientQuotas(StoredQuotas):
    """The quotas of /config/users and /config/clients and what clients have used of them."""

    def __init__(self, clock: Clock, config: BrokerConfig) -> None:
        self._clock = clock
        self._window = Window(
            config.integer("quota.window.num"), config.integer("quota.window.size.seconds") * 1000.0
        )
        self._limits: dict[str, dict[Entity, float]] = {kind: {} for kind in KINDS}
        self._static = {
            PRODUCER_BYTE_RATE: config.integer("quota.producer.default"),
            CONSUMER_BYTE_RATE: config.integer("quota.consumer.default"),
            REQUEST_PERCENTAGE: UNLIMITED,
        }
        self._meters: dict[tuple[str, Entity], RateMeter] = {}
        # The kinds that somebody has a quota of; all clients are measured for these.
        self._active: frozenset[str] = frozenset()
        # A plain attribute: it is looked at for every request.
        self.is_active = False
        self._note_active()

    def _note_active(self) -> None:
        self._active = frozenset(
            kind for kind in KINDS if self._limits[kind] or self._static[kind] < UNLIMITED
        )
        self.is_active = bool(self._active)
        self._meters = {key: m for key, m in self._meters.items() if key[0] in self._active}

    def before_fetch(self, principal: str, client_id: str | None) -> FetchAllowance:
        """A fetch takes what is left in the windows at the limit; all of them where nothing was
        used yet (ClientQuotaManager.getMaxValueInQuotaWindow)."""
        if CONSUMER_BYTE_RATE not in self._active:
            return FetchAllowance()
        limit, owner = self._limit(CONSUMER_BYTE_RATE, *_names(principal, client_id))
        meter = self._meters.get((CONSUMER_BYTE_RATE, owner))
        samples, sample_ms = self._window
        left = limit * max(1, samples - 1) * sample_ms / 1000
        if meter is not None:
            now_ms = self._clock.monotonic_ms()
            rate, covered_ms = meter.measure(now_ms)
            held_ms = round(meter.held_until_ms - now_ms)
            wait_ms = max(throttle_ms(rate, limit, covered_ms), held_ms)
            if wait_ms > 0:
                return FetchAllowance(0, wait_ms)
            left = min(left, (limit - rate) * covered_ms / 1000)
        return FetchAllowance(int(min(max(left, 1), INT_MAX)))

    def charge(self, spent: Spending, response: Any, error: Exception | None = None) -> int:
        """Counts an answered request; says how long its client is to be silent, and tells it.
        One that failed has an error and no response."""
        user, client = _names(spent.principal, spent.client_id)
        now_ms = self._clock.monotonic_ms()
        waits = [getattr(response, "throttle_time_ms", 0)]
        if spent.api_key == _PRODUCE:
            waits.append(self._use(PRODUCER_BYTE_RATE, user, client, spent.size_bytes, now_ms))
        elif spent.api_key == _FETCH and not _is_follower(spent.request):
            waits.append(self._fetched(user, client, _fetched_bytes(response), now_ms))
        if not _is_exempt(spent, error):
            percent = spent.busy_ms / 10  # milliseconds of a second to per cent of it
            waits.append(self._use(REQUEST_PERCENTAGE, user, client, percent, now_ms))
        wait_ms = max(waits)
        if wait_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = wait_ms
        return wait_ms

    def add_time(self, spent: Spending) -> None:
        """Time that was needed after the client was told how long to wait: its next request finds
        it counted (Kafka's network threads)."""
        if REQUEST_PERCENTAGE in self._active and not _is_exempt(spent, None):
            user, client = _names(spent.principal, spent.client_id)
            now_ms = self._clock.monotonic_ms()
            self._record(REQUEST_PERCENTAGE, user, client, spent.busy_ms / 10, now_ms)

    def _fetched(self, user: str, client: str, size: int, now_ms: float) -> int:
        """One batch goes out however large it is, even where almost nothing was left."""
        wait_ms = self._use(CONSUMER_BYTE_RATE, user, client, size, now_ms)
        if wait_ms <= self._window.sample_ms:
            return wait_ms
        limit, owner = self._limit(CONSUMER_BYTE_RATE, user, client)
        meter = self._meters[CONSUMER_BYTE_RATE, owner]
        meter.held_until_ms = meter.paid_off_ms(limit)
        return max(wait_ms, round(meter.held_until_ms - now_ms))

    def _limit(self, kind: str, user: str, client: str) -> tuple[float, Entity]:
        found = resolve(self._limits[kind], user, client)
        if found is not None:
            return found
        # As a default of client ids, which those without one do not have either.
        return (self._static[kind] if client else UNLIMITED), Entity(None, client)

    def _use(self, kind: str, user: str, client: str, amount: float, now_ms: float) -> int:
        if kind not in self._active:
            return 0
        limit, meter = self._record(kind, user, client, amount, now_ms)
        rate, covered_ms = meter.measure(now_ms)
        wait_ms = throttle_ms(rate, limit, covered_ms)
        if kind == REQUEST_PERCENTAGE:
            wait_ms = min(wait_ms, round(self._window.sample_ms))
        meter.waited_ms += wait_ms
        return wait_ms

    def _record(
        self, kind: str, user: str, client: str, amount: float, now_ms: float
    ) -> tuple[float, RateMeter]:
        limit, owner = self._limit(kind, user, client)
        meter = self._meters.pop((kind, owner), None)
        if meter is None:
            meter = RateMeter(self._window)
            self._forget_silent(now_ms)
        self._meters[kind, owner] = meter
        if len(self._meters) > MAX_CLIENTS:
            del self._meters[next(iter(self._meters))]
        meter.record(amount, now_ms)
        return limit, meter

    def _forget_silent(self, now_ms: float) -> None:
        """Those heard of longest ago stand in front."""
        while self._meters:
            key, meter = next(iter(self._meters.items()))
            if now_ms - meter.last_ms < SILENT_MS:
                break
            del self._meters[key]

    def uses(self) -> list[Use]:
        """What clients use now, for whoever watches."""
        now_ms = self._clock.monotonic_ms()
        self._forget_silent(now_ms)
        return [
            Use(kind, owner, meter.measure(now_ms)[0], meter.waited_ms)
            for (kind, owner), meter in self._meters.items()
        ]

    def set(self, entity: Entity, configs: Mapping[str, str]) -> None:
        """Takes over one entity's configs; anything but a positive number counts as no quota."""
        for kind, limits in self._limits.items():
            try:
                limit = float(configs.get(kind, "0"))
            except ValueError:
                limit = 0.0
            if 0 < limit < float(UNLIMITED):
                limits[entity] = limit
            else:
                limits.pop(entity, None)
        for meter in self._meters.values():
            meter.held_until_ms = 0.0  # by another limit, perhaps
        self._note_active()


def _names(principal: str, client_id: str | None) -> tuple[str, str]:
    """The user and the client as they stand in paths."""
    return sanitize(principal.partition(":")[2]), sanitize(client_id or "")


def _is_follower(request: Any) -> bool:
    return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)


def _is_exempt(spent: Spending, error: Exception | None) -> bool:
    if isinstance(error, KafkaError) and error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return False  # no broker, then
    if spent.api_key == _PRODUCE:
        return bool(spent.request.acks == 0)
    if spent.api_key == _FETCH:
        return _is_follower(spent.request)
    if spent.api_key in _OF_FETCHERS:
        # Kafka counts these; but a fetcher's wait is that of all it follows.
        return bool(spent.request.replica_id >= 0)
    return spent.api_key in _EXEMPT


def _fetched_bytes(response: Any) -> int:
    if response is None:
        return 0
    return sum(
        len(data.records)
        for topic in response.responses
        for data in topic.partitions
        if data.records is not None
    )
