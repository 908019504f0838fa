"""Quotas of clients: bytes produced, bytes fetched, time of the broker (ClientQuotaManager, KIP-13,
KIP-124, KIP-55).

A client above its rate is answered at once, told how long to wait, and its connection is not read
for that long. A consumer that is above its rate already gets no records either, so that waits stay
short however many connections share a quota. Where no quota of a kind is set nothing is measured.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.quotas.mutations import Entity, StoredQuotas, resolve, sanitize
from ottla.config.definitions import INT_MAX
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.requests.dispatch import Call
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Clock

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
KINDS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
UNLIMITED = (1 << 63) - 1
# The clients that were heard of longest ago are forgotten, and with them what they used.
MAX_CLIENTS = 10_000
# And those that were silent for this long (ClientQuotaManager.InactiveSensorExpirationTimeSeconds).
SILENT_MS = 3_600_000.0
_PRODUCE, _FETCH = 0, 1
# What brokers ask of each other, and what comes before a client is known, takes no client's time.
_OF_FETCHERS = frozenset({2, 23})  # ListOffsets and OffsetForLeaderEpoch
_EXEMPT = frozenset({4, 5, 6, 7, 17, 27, 36, 56, 57, 58, 67})


class Window(NamedTuple):
    """`quota.window.num` samples of `quota.window.size.seconds` each."""

    samples: int = 11
    sample_ms: float = 1000.0


class FetchAllowance(NamedTuple):
    """What a consumer may have now: no more than so many bytes, or nothing for a while."""

    max_bytes: int = INT_MAX
    wait_ms: int = 0


class Use(NamedTuple):
    """The rate of one kind at which an owner of a quota uses it, and all waits so far."""

    kind: str
    owner: Entity
    rate: float
    waited_ms: int


class RateMeter:
    """Kafka's Rate over SampledStat: a sum over the last windows, by the time they cover."""

    __slots__ = ("_samples", "_window", "held_until_ms", "last_ms", "waited_ms")

    def __init__(self, window: Window) -> None:
        self._window = window
        # Nothing more before then, where so much was used at once that the samples are gone sooner
        # than it is paid off.
        self.held_until_ms = 0.0
        self.last_ms = 0.0
        # All waits that came of it.
        self.waited_ms = 0
        # When each sample began, and its sum; the newest one last.
        self._samples: deque[list[float]] = deque(maxlen=window.samples)

    def record(self, value: float, now_ms: float) -> None:
        self.last_ms = now_ms
        if not self._samples or now_ms - self._samples[-1][0] >= self._window.sample_ms:
            self._samples.append([now_ms, 0.0])
        self._samples[-1][1] += value

    def measure(self, now_ms: float) -> tuple[float, float]:
        """The rate per second, and the time in milliseconds that it was taken over."""
        samples, sample_ms = self._window
        while self._samples and now_ms - self._samples[0][0] >= samples * sample_ms:
            self._samples.popleft()
        if not self._samples:
            return 0.0, samples * sample_ms
        covered_ms = now_ms - self._samples[0][0]
        # A client that has just begun is measured as if it had been silent before.
        missing = samples - 1 - covered_ms // sample_ms
        if missing > 0:
            covered_ms += missing * sample_ms
        covered_ms = max(covered_ms, sample_ms)
        return sum(value for _, value in self._samples) / covered_ms * 1000, covered_ms

    def paid_off_ms(self, limit: float) -> float:
        """When all that the samples hold was within the limit."""
        if not self._samples:
            return 0.0
        return self._samples[0][0] + sum(value for _, value in self._samples) / limit * 1000


def throttle_ms(rate: float, limit: float, covered_ms: float) -> int:
    """How long to be silent until the rate is down at the limit (QuotaUtils.throttleTime)."""
    if rate <= limit:
        return 0
    return round((rate - limit) / limit * covered_ms)


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

    def charge(
        self, call: Call, response: Any, principal: str, error: Exception | None = None
    ) -> int:
        """Counts an answered request; says how long its client is to be silent, and tells it.
        One that failed has an error and no response."""
        header = call.header
        if header is None:
            return 0
        user, client = _names(principal, header.client_id)
        now_ms = self._clock.monotonic_ms()
        waits = [getattr(response, "throttle_time_ms", 0)]
        if header.api_key == _PRODUCE:
            waits.append(self._use(PRODUCER_BYTE_RATE, user, client, call.size_bytes, now_ms))
        elif header.api_key == _FETCH and not _is_follower(call.request):
            waits.append(self._fetched(user, client, _fetched_bytes(response), now_ms))
        if not _is_exempt(call, error):
            percent = call.busy_ms / 10  # milliseconds of a second to per cent of it
            waits.append(self._use(REQUEST_PERCENTAGE, user, client, percent, now_ms))
        wait_ms = max(waits)
        if wait_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = wait_ms
        return wait_ms

    def add_time(self, call: Call, principal: str, busy_ms: float) -> None:
        """Time that was needed after the client was told how long to wait: its next request finds
        it counted (Kafka's network threads)."""
        if REQUEST_PERCENTAGE in self._active and call.header and not _is_exempt(call, None):
            user, client = _names(principal, call.header.client_id)
            now_ms = self._clock.monotonic_ms()
            self._record(REQUEST_PERCENTAGE, user, client, busy_ms / 10, now_ms)

    def _fetched(self, user: str, client: str, size: int, now_ms: float) -> int:
        """One batch goes out however large it is, also where nearly nothing was left."""
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
        """Takes over one entity's configs; what is no positive number counts as no quota."""
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


def _is_exempt(call: Call, error: Exception | None) -> bool:
    if isinstance(error, KafkaError) and error.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        return False  # no broker, then
    api_key = call.loaded.route.api_key
    if api_key == _PRODUCE:
        return bool(call.request.acks == 0)
    if api_key == _FETCH:
        return _is_follower(call.request)
    if api_key in _OF_FETCHERS:
        # Kafka counts these; but a fetcher's wait is that of all it follows.
        return bool(call.request.replica_id >= 0)
    return api_key in _EXEMPT


def _fetched_bytes(response: Any) -> int:
    if response is None:
        return 0
    return sum(
        len(data.records)
        for topic in response.responses
        for data in topic.partitions
        if data.records is not None
    )
