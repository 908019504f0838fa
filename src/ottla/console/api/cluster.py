"""The page Cluster: is all well?

Every two seconds each broker is asked a little (its counters), one of them who is alive; the
partitions come from the picture that all pages share, taken anew when something has changed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from ottla.config.resources import ResourceType
from ottla.console.commands import ottla
from ottla.console.health import Facts, Finding, diagnose, may_be_short, missing_brokers
from ottla.console.picture import Picture, fresh_picture, picture
from ottla.console.rates import NO_RATE, POINTS, Rate, Rates, Sample
from ottla.console.web.routes import Call, Feed, Route
from ottla.errors import ErrorCode, KafkaError, OttlaError
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.client.admin.inner_views import BrokerView
    from ottla.client.admin.types import Reassignment
    from ottla.client.cluster import Node
    from ottla.console.web.access import Access
    from ottla.console.web.live import Source
    from ottla.types import TopicPartition

_INTERVAL_S = 2.0
_PICTURE_AGE_S = 4.0
# A broker that hangs must not hold up what the others say.
_ANSWER_S = 1.5
# The sizes of all logs, where brokers have no counters: they are looked up one by one.
_SIZES_AGE_S = 15.0
_SIZES_COST_FACTOR = 150
_EPOCH_AGE_S = 10.0
_MOVES_AGE_S = 4.0
_MIN_IN_SYNC_AGE_S = 60.0
_MAX_TOPICS_ASKED = 200
_MIN_IN_SYNC = "min.insync.replicas"
BY_COUNTERS = "counters"
BY_LOG_SIZES = "log sizes"


class Broker(msgspec.Struct):
    """Rates in bytes per second; null where they are not known."""

    id: int
    host: str | None
    port: int | None
    rack: str | None
    is_alive: bool
    is_silent: bool
    leaders: int
    replicas: int
    in_rate: float | None = None
    out_rate: float | None = None


class History(msgspec.Struct):
    """The last rates of a broker, the newest at the end."""

    id: int
    in_rates: list[float | None]
    out_rates: list[float | None]


class Cluster(msgspec.Struct):
    cluster_id: str | None
    controller: int | None
    # Only Ottla's controller tells it.
    controller_epoch: int | None
    # Brokers without ZooKeeper name any broker as the controller: then it is null.
    is_kraft: bool
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    under_min_isr: int
    not_preferred: int
    moves: int
    brokers: list[Broker]
    findings: list[Finding]
    # counters, or "log sizes": then the rates are those at which logs grow.
    rates_by: str | None = None
    points: int = POINTS
    history: list[History] = []


class Watch:
    """All that the page knows of a cluster, kept between polls; the one owner of it."""

    def __init__(
        self, access: Access, command: Callable[..., str], now_s: Callable[[], float]
    ) -> None:
        self._access = access
        self._admin: Admin = access.admin
        self._command = command
        self._now_s = now_s
        # Brokers as they were last seen alive: one that is down keeps its rack.
        self._nodes: dict[int, Node] = {}
        self._rates: dict[int, Rates] = {}
        self._rates_by: str | None = None
        self._signs: object = None
        self._is_kraft: bool | None = None
        self._epoch: int | None = None
        self._epoch_of: int | None = None
        self._epoch_at_s = float("-inf")
        self._moves: dict[TopicPartition, Reassignment] = {}
        self._moves_at_s = float("-inf")
        self._min_in_sync: dict[str, tuple[float, int]] = {}
        self._sizes_due_s = float("-inf")
        self._last: Cluster | None = None

    async def poll(self) -> Cluster:
        self._last = await self.look()
        return self._last

    def whole(self) -> Cluster | None:
        if self._last is None:
            return None
        history = [
            History(
                broker, [r.bytes_in for r in known.history], [r.bytes_out for r in known.history]
            )
            for broker, known in sorted(self._rates.items())
        ]
        return msgspec.structs.replace(self._last, history=history)

    async def look(self) -> Cluster:
        alive = await self._admin.describe_cluster()
        ids = [node.id for node in alive.nodes]
        views, silent = await self._views(ids)
        signs = (
            alive.controller_id,
            tuple(ids),
            tuple((v.under_replicated, v.leaders, v.partitions) for v in views.values() if v),
        )
        has_changed, self._signs = signs != self._signs, signs
        seen = await picture(
            self._access, 0.5 if has_changed else _PICTURE_AGE_S, hurry=has_changed
        )
        if self._is_kraft is None:
            self._is_kraft = await _is_kraft(self._admin, ids[0])
        self._nodes |= {node.id: node for node in seen.brokers}
        rates = await self._note_rates(ids, views)
        await self._look_up_moves()
        await self._look_up_epoch(alive.controller_id)
        facts = Facts(
            seen, self._command, self._moves, await self._look_up_min_in_sync(seen), silent
        )
        counts, findings = diagnose(facts)
        return Cluster(
            cluster_id=alive.cluster_id,
            controller=None if self._is_kraft else seen.controller,
            controller_epoch=self._epoch,
            is_kraft=self._is_kraft,
            topics=len(seen.topics),
            partitions=len(seen),
            without_leader=counts.without_leader,
            under_replicated=counts.under_replicated,
            under_min_isr=counts.under_min_isr,
            not_preferred=counts.not_preferred,
            moves=len(self._moves),
            brokers=_brokers(seen, silent, rates, self._nodes),
            findings=findings,
            rates_by=self._rates_by,
        )

    async def _views(
        self, ids: Iterable[int]
    ) -> tuple[dict[int, BrokerView | None], frozenset[int]]:
        """What each broker says of itself (None: it is not Ottla's), and who says nothing."""
        views: dict[int, BrokerView | None] = {}
        silent = set()

        async def ask(broker: int) -> None:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    views[broker] = await self._admin.broker_view(broker, limit=0)
            except (TimeoutError, OSError):
                silent.add(broker)
            except KafkaError as error:
                if error.code is not ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                    silent.add(broker)
            except OttlaError:
                silent.add(broker)

        await asyncio.gather(*map(ask, ids))
        return views, frozenset(silent)

    async def _note_rates(
        self, ids: list[int], views: dict[int, BrokerView | None]
    ) -> dict[int, Rate]:
        samples: dict[int, Sample | None] = {}
        if any(views.values()):
            self._rates_by = BY_COUNTERS
            for broker in ids:
                v = views.get(broker)
                samples[broker] = (
                    None if v is None else Sample(v.clock_ms, v.started_ms, v.bytes_in, v.bytes_out)
                )
        else:
            samples = await self._sizes(ids)
            if not samples:  # not due yet: what was known last still holds
                return {b: known.history[-1] for b, known in self._rates.items() if known.history}
            self._rates_by = BY_LOG_SIZES
        for broker in self._rates:
            samples.setdefault(broker, None)
        return {
            broker: self._rates.setdefault(broker, Rates()).add(sample)
            for broker, sample in samples.items()
        }

    async def _sizes(self, ids: list[int]) -> dict[int, Sample | None]:
        begun_s = self._now_s()
        if begun_s < self._sizes_due_s:
            return {}
        samples: dict[int, Sample | None] = {}
        for broker in ids:
            try:
                dirs = await self._admin.describe_log_dirs(broker)
            except (OttlaError, OSError, TimeoutError):
                continue
            total = sum(replica.size for one in dirs.values() for replica in one.replicas)
            samples[broker] = Sample(self._now_s() * 1000, 0, total, None)
        cost_s = self._now_s() - begun_s
        self._sizes_due_s = begun_s + max(_SIZES_AGE_S, min(_SIZES_COST_FACTOR * cost_s, 300.0))
        return samples

    async def _look_up_moves(self) -> None:
        if self._now_s() - self._moves_at_s < _MOVES_AGE_S:
            return
        self._moves_at_s = self._now_s()
        try:
            async with asyncio.timeout(_ANSWER_S):
                self._moves = await self._admin.list_reassignments()
        except (OttlaError, OSError, TimeoutError):
            self._moves = {}  # the controller is changing, or the reader may not know

    async def _look_up_epoch(self, controller: int) -> None:
        is_known = controller == self._epoch_of
        if is_known and self._now_s() - self._epoch_at_s < _EPOCH_AGE_S:
            return
        self._epoch_of, self._epoch_at_s = controller, self._now_s()
        try:
            async with asyncio.timeout(_ANSWER_S):
                view = await self._admin.controller_view(limit=0)
            self._epoch = None if view is None else view.epoch
        except (OttlaError, OSError, TimeoutError):
            self._epoch, self._epoch_of = None, None

    async def _look_up_min_in_sync(self, seen: Picture) -> dict[str, int]:
        now_s = self._now_s()
        wanted = may_be_short(seen)[:_MAX_TOPICS_ASKED]
        self._min_in_sync = {
            topic: found
            for topic, found in self._min_in_sync.items()
            if now_s - found[0] < _MIN_IN_SYNC_AGE_S
        }
        unknown = [topic for topic in wanted if topic not in self._min_in_sync]
        if unknown:
            try:
                for topic, least in (await _min_in_sync(self._admin, unknown)).items():
                    self._min_in_sync[topic] = now_s, least
            except (OttlaError, OSError, TimeoutError):
                pass  # the reader may not see configs: then nobody is called short
        return {
            topic: self._min_in_sync[topic][1] for topic in wanted if topic in self._min_in_sync
        }


async def _is_kraft(admin: Admin, broker: int) -> bool:
    """Only brokers in ZooKeeper mode take orders from a controller among them."""
    channel = await admin.cluster.channel_to(broker, timeout_ms=_ANSWER_S * 1000)
    try:
        channel.version_for(m.LeaderAndIsrRequest())
    except KafkaError:
        return True
    return False


async def _min_in_sync(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    resource = m.DescribeConfigsRequest.DescribeConfigsResource
    request = m.DescribeConfigsRequest(
        resources=[
            resource(
                resource_type=ResourceType.TOPIC,
                resource_name=topic,
                configuration_keys=[_MIN_IN_SYNC],
            )
            for topic in topics
        ]
    )
    answer = await admin.cluster.send_to_any(request)
    return {
        result.resource_name: int(config.value)
        for result in answer.results
        if not result.error_code
        for config in result.configs
        if config.name == _MIN_IN_SYNC and config.value
    }


def _brokers(
    seen: Picture, silent: frozenset[int], rates: dict[int, Rate], nodes: dict[int, Node]
) -> list[Broker]:
    leaders = Counter(seen.leaders)
    replicas: Counter[int] = Counter()
    for ids, times in Counter(seen.replicas).items():
        for broker in ids:
            replicas[broker] += times
    alive = [
        Broker(
            node.id, node.host, node.port, node.rack, True, node.id in silent,
            leaders[node.id], replicas[node.id], *rates.get(node.id, NO_RATE),
        )
        for node in seen.brokers
    ]  # fmt: skip
    missing = [
        Broker(
            broker, known and known.host, known and known.port, known and known.rack, False, True,
            0, replicas[broker],
        )
        for broker, known in ((broker, nodes.get(broker)) for broker in missing_brokers(seen))
    ]  # fmt: skip
    return sorted(alive + missing, key=lambda broker: broker.id)


def _open(call: Call) -> Source:
    loop = asyncio.get_running_loop()
    return Watch(call.access, partial(ottla, call.settings), loop.time)


async def cluster(call: Call) -> Cluster:
    """Once, without rates: these need two looks."""
    loop = asyncio.get_running_loop()
    await fresh_picture(call.access)
    return await Watch(call.access, partial(ottla, call.settings), loop.time).look()


ROUTES = [Route("GET", "/cluster", cluster, "Brokers, controller, health", answer=Cluster)]
FEEDS = [Feed("cluster", "Brokers, controller, health", _INTERVAL_S, _open, message=Cluster)]
