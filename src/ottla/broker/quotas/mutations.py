"""The quota on partitions that a client may have created and deleted per second (KIP-599).

A token bucket per client: it holds at most a burst, is refilled at the quota's rate, and a request
that finds it not below zero may take as much as it likes, even into debt. Newer versions of the
three APIs are then refused (strict), older ones are served and told to wait (permissive).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.broker.quotas.entities import Entity, StoredQuotas, resolve
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.entity_configs import sanitize
from ottla.security.rights import Operation, allowed_on_cluster

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Clock
    from ottla.security.rights import Requester

CONFIG = "controller_mutation_rate"
# The clients that used their quota longest ago are forgotten: their buckets are full again.
MAX_BUCKETS = 10_000


class TokenBucket:
    """Kafka's TokenBucket; it holds what comes in within a few seconds and begins full."""

    __slots__ = ("_burst_s", "_updated_ms", "tokens")

    def __init__(self, rate: float, now_ms: float, burst_s: float) -> None:
        self.tokens = rate * burst_s
        self._burst_s = burst_s
        self._updated_ms = now_ms

    def refill(self, rate: float, now_ms: float) -> float:
        """The tokens that are there now; below zero the quota is used up."""
        gained = rate * max(0.0, now_ms - self._updated_ms) / 1000
        self.tokens = min(rate * self._burst_s, self.tokens + gained)
        self._updated_ms = now_ms
        return self.tokens

    def take(self, permits: float) -> None:
        self.tokens -= permits

    def wait_ms(self, rate: float) -> int:
        """How long until nothing is owed any more."""
        return round(max(0.0, -self.tokens) / rate * 1000)


class MutationQuota:
    """One request's view of its client's quota; without a bucket there is none."""

    def __init__(
        self, clock: Clock, bucket: TokenBucket | None, rate: float, *, strict: bool
    ) -> None:
        self._clock = clock
        self._bucket = bucket
        self._rate = rate
        self._strict = strict
        self._told_ms = 0
        self._told_at_ms = 0.0

    def record(self, permits: int) -> None:
        """Uses permits up; raises THROTTLING_QUOTA_EXCEEDED where strict and in debt."""
        if self._bucket is None:
            return
        now_ms = self._clock.monotonic_ms()
        in_debt = self._bucket.refill(self._rate, now_ms) < 0
        if in_debt and self._strict:
            self._tell(now_ms)
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.take(permits)
        if not self._strict and self._bucket.tokens < 0:
            self._tell(now_ms)

    def _tell(self, now_ms: float) -> None:
        if self._bucket is not None:
            self._told_ms = self._bucket.wait_ms(self._rate)
            self._told_at_ms = now_ms

    @property
    def throttle_time_ms(self) -> int:
        """What is left of the wait by now: the answer may have taken its time."""
        passed_ms = self._clock.monotonic_ms() - self._told_at_ms
        return max(0, round(self._told_ms - passed_ms)) if self._told_ms else 0


class MutationQuotas(StoredQuotas):
    """The quotas of /config/users and /config/clients, and a bucket per client that uses them."""

    def __init__(self, clock: Clock, config: BrokerConfig, metadata_cache: MetadataCache) -> None:
        self._clock = clock
        self._cache = metadata_cache
        self._burst_s = config.integer("controller.quota.window.num") * config.integer(
            "controller.quota.window.size.seconds"
        )
        self._rates: dict[Entity, float] = {}
        self._buckets: dict[Entity, TokenBucket] = {}

    def of(self, principal: str, client_id: str | None, *, strict: bool) -> MutationQuota:
        user = sanitize(principal.partition(":")[2])
        found = resolve(self._rates, user, sanitize(client_id or "")) if self._rates else None
        if found is None:
            return MutationQuota(self._clock, None, 0.0, strict=strict)
        rate, owner = found
        bucket = self._buckets.pop(owner, None)
        if bucket is None:
            bucket = TokenBucket(rate, self._clock.monotonic_ms(), self._burst_s)
        self._buckets[owner] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return MutationQuota(self._clock, bucket, rate, strict=strict)

    def for_request(
        self, requester: Requester, client_id: str | None, *, strict: bool
    ) -> MutationQuota:
        if not strict and self._is_broker(requester, client_id or ""):
            # A topic made by use, which another broker asks for on its channel to the controller:
            # a wait would hold up everything else on it, changes of ISRs included.
            return MutationQuota(self._clock, None, 0.0, strict=False)
        return self.of(requester.principal, client_id, strict=strict)

    def _is_broker(self, requester: Requester, client_id: str) -> bool:
        """Brokers use their ids as client ids, and may do what only brokers do."""
        return (
            client_id.isdecimal()
            and self._cache.is_alive(int(client_id))
            and allowed_on_cluster(requester, Operation.CLUSTER_ACTION, log_denied=False)
        )

    def set(self, entity: Entity, configs: Mapping[str, str]) -> None:
        try:
            rate = float(configs.get(CONFIG, "0"))
        except ValueError:
            rate = 0.0
        if rate > 0:
            self._rates[entity] = rate
        else:
            self._rates.pop(entity, None)
