"""A broker's numbers under the names that exporters give to Kafka's (docs/metrics.md).

Read only when somebody asks: gauges are computed from the broker's own state at that moment, in
steps of a few milliseconds, between which the broker does its work.
`prometheus_client` is imported with this module, which only brokers with `ottla.metrics.port` do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from ottla.broker.metrics.counts import BUCKETS_MS, IsrCounter, RequestMetrics, error_name
from ottla.broker.quotas.clients import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE
from ottla.broker.replication.partition import is_under_replicated

if TYPE_CHECKING:
    from ottla.broker.membership.metadata_cache import MetadataCache
    from ottla.broker.quotas.clients import ClientQuotas
    from ottla.broker.replication.partition import Partition
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.coordinator.groups.coordinator import GroupCoordinator

# What the controller adds, by name: process/node.py hands it in, as a broker knows no controller.
ControllerGauges = Callable[[], dict[str, float]]

_REPLICAS = "kafka_server_replicamanager_"
_TOPICS = "kafka_server_brokertopicmetrics_"
_REQUESTS = "kafka_network_requestmetrics_"
_GROUPS = "kafka_coordinator_group_groupmetadatamanager_"
_TOPIC_COUNTERS = (
    ("messagesin", "messages_in", "Records that were produced"),
    ("bytesin", "bytes_in", "Bytes that were produced"),
    ("bytesout", "bytes_out", "Bytes that consumers were sent"),
    ("replicationbytesout", "replication_bytes_out", "Bytes that followers were sent"),
    ("totalproducerequests", "produces", "Partitions of produce requests"),
    ("totalfetchrequests", "fetches", "Partitions of fetch answers"),
    ("failedproducerequests", "failed_produces", "Partitions of produce requests that failed"),
    ("failedfetchrequests", "failed_fetches", "Partitions of fetch requests that failed"),
)
_QUOTAS = {
    PRODUCER_BYTE_RATE: ("produce", "byte_rate", "Bytes per second"),
    CONSUMER_BYTE_RATE: ("fetch", "byte_rate", "Bytes per second"),
    REQUEST_PERCENTAGE: ("request", "request_time", "Per cent of the broker's time"),
}
# Partitions, or samples, of one step.
STEP = 500
_GROUP_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")


class WatchedBroker(Protocol):
    """The parts of a broker that are looked at when somebody asks."""

    @property
    def replica_manager(self) -> ReplicaManager: ...

    @property
    def metadata_cache(self) -> MetadataCache: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def client_quotas(self) -> ClientQuotas | None: ...


class BrokerCollector(Collector):
    """All metrics of one broker, in the families of Prometheus; large ones come in pieces."""

    def __init__(
        self,
        broker: WatchedBroker,
        requests: RequestMetrics,
        isr_changes: IsrCounter,
        controller_gauges: ControllerGauges,
        connection_count: Callable[[], int],
    ) -> None:
        self._broker = broker
        self._requests = requests
        self._isr_changes = isr_changes
        self._controller_gauges = controller_gauges
        self._connection_count = connection_count

    def collect(self) -> Iterator[Metric]:
        partitions = list(self._broker.replica_manager.partitions)
        yield from self._replica_manager(partitions)
        yield from _partitions(partitions)
        yield from self._logs()
        yield from _controller(self._controller_gauges())
        yield from self._topics()
        yield from self._apis()
        yield from self._purgatories(partitions)
        yield from self._groups()
        yield from self._quotas()
        yield _gauge("kafka_server_socketservermetrics_connectioncount", "Connections",
                     self._connection_count())  # fmt: skip

    def _replica_manager(self, partitions: list[Partition]) -> Iterator[Metric]:
        led = [partition for partition in partitions if partition.is_leader]
        manager = self._broker.replica_manager
        margins = [
            len(partition.in_sync.members) - partition.log.settings.min_insync_replicas
            for partition in led
            if partition.log is not None
        ]
        for name, value, text in (
            ("underreplicatedpartitions", sum(map(is_under_replicated, led)),
             "Led partitions with a replica out of the ISR"),
            ("underminisrpartitioncount", sum(margin < 0 for margin in margins),
             "Led partitions below min.insync.replicas"),
            ("atminisrpartitioncount", sum(margin == 0 for margin in margins),
             "Led partitions with no replica to spare"),
            ("offlinereplicacount", manager.partitions.offline_count, "Replicas in failed folders"),
            ("leadercount", len(led), "Partitions that are led here"),
            ("partitioncount", len(partitions), "Partitions with a replica here"),
        ):  # fmt: skip
            yield _gauge(_REPLICAS + name, text, value)
        counts = self._isr_changes
        yield _counter(_REPLICAS + "isrshrinks", "ISRs that lost a member", counts.shrinks)
        yield _counter(_REPLICAS + "isrexpands", "ISRs that won a member", counts.expands)
        yield _counter(_TOPICS + "replicationbytesin", "Bytes fetched from leaders",
                       manager.fetchers.taken_bytes)  # fmt: skip
        yield _gauge("kafka_server_replicafetchermanager_maxlag",
                     "Records that the partition furthest behind its leader lacks",
                     manager.fetchers.max_lag)  # fmt: skip

    def _quotas(self) -> Iterator[Metric]:
        """Only where there are quotas: without them nothing is measured."""
        quotas = self._broker.client_quotas
        uses = [] if quotas is None else quotas.uses()
        for kind, (name, rate, text) in _QUOTAS.items():
            labels = ["user", "client_id"]
            rates = GaugeMetricFamily(f"kafka_server_{name}_{rate}", text, labels=labels)
            waits = CounterMetricFamily(
                f"kafka_server_{name}_throttle_time_ms", "Waits above the quota", labels=labels
            )
            for use in uses:
                if use.kind == kind:
                    owner = [unquote(use.owner.user or ""), unquote(use.owner.client or "")]
                    rates.add_metric(owner, use.rate)
                    waits.add_metric(owner, use.waited_ms)
            yield from (rates, waits)

    def _logs(self) -> Iterator[Metric]:
        labels = ["topic", "partition"]
        size = GaugeMetricFamily("kafka_log_log_size", "Bytes", labels=labels)
        start = GaugeMetricFamily("kafka_log_log_logstartoffset", "First offset", labels=labels)
        end = GaugeMetricFamily("kafka_log_log_logendoffset", "Next offset", labels=labels)
        count = GaugeMetricFamily("kafka_log_log_numlogsegments", "Segments", labels=labels)
        logs = self._broker.replica_manager.log_manager
        yield from (size, start, end, count)
        for piece in _pieces(list(logs.logs())):
            for family in (size, start, end, count):
                family.samples = []
            for log in piece:
                values = [log.tp.topic, str(log.tp.partition)]
                size.add_metric(values, log.size)
                start.add_metric(values, log.start_offset)
                end.add_metric(values, log.end_offset)
                count.add_metric(values, len(log.segments))
            yield from (size, start, end, count)
        yield _gauge("kafka_log_logmanager_offlinelogdirectorycount", "Failed folders",
                     len(logs.dirs.offline()))  # fmt: skip

    def _topics(self) -> Iterator[Metric]:
        known = set(self._broker.metadata_cache.topics())
        self._requests.forget(known.__contains__)
        for name, attribute, text in _TOPIC_COUNTERS:
            family = CounterMetricFamily(_TOPICS + name, text, labels=["topic"])
            # As exporters of Kafka's own do it: all topics together have no name.
            family.add_metric([""], getattr(self._requests.total, attribute))
            for topic, counts in self._requests.topics.items():
                family.add_metric([topic], getattr(counts, attribute))
            yield family

    def _apis(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            _REQUESTS + "requests", "Requests", labels=["request", "version"]
        )
        errors = CounterMetricFamily(
            _REQUESTS + "errors", "Codes in answers", labels=["request", "error"]
        )
        times = HistogramMetricFamily(
            _REQUESTS + "totaltimems", "Milliseconds until the answer", labels=["request"]
        )
        for name, api in self._requests.apis.items():
            for version, count in api.by_version.items():
                requests.add_metric([name, str(version)], count)
            for code, count in api.errors.items():
                errors.add_metric([name, error_name(code)], count)
            times.add_metric([name], list(_cumulative(api.buckets)), api.total_ms)
        yield from (requests, errors, times)

    def _purgatories(self, partitions: list[Partition]) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "kafka_server_delayedoperationpurgatory_purgatorysize",
            "Requests that wait",
            labels=["delayedOperation"],
        )
        fetches = {wait for partition in partitions for wait in partition.fetch_waits}
        family.add_metric(["Fetch"], len(fetches))
        produces = sum(len(partition.produce_waits) for partition in partitions)
        family.add_metric(["Produce"], produces)
        yield family

    def _groups(self) -> Iterator[Metric]:
        _, listed = self._broker.groups.list_groups()
        yield _gauge(_GROUPS + "numgroups", "Groups coordinated here", len(listed))
        states = Counter(group.state for group in listed)
        for state in _GROUP_STATES:
            name = f"numgroups{state.lower()}"
            yield _gauge(_GROUPS + name, f"Groups that are {state}", states[state])


def _controller(values: dict[str, float]) -> Iterator[Metric]:
    for name, value in values.items():
        base, _, last = name.rpartition("_")
        text = "Of the controller"
        if last == "count":
            total = values[f"{base}_sum"]
            yield SummaryMetricFamily(f"kafka_controller_{base}", text, int(value), total)
        elif last == "total":
            yield CounterMetricFamily(f"kafka_controller_{base}", text, value)
        elif last != "sum":
            yield GaugeMetricFamily(f"kafka_controller_{name}", text, value)


def _partitions(partitions: list[Partition]) -> Iterator[Metric]:
    labels = ["topic", "partition"]
    under = GaugeMetricFamily(
        "kafka_cluster_partition_underreplicated", "1: a replica is out of the ISR", labels=labels
    )
    isr = GaugeMetricFamily(
        "kafka_cluster_partition_insyncreplicascount", "Members of the ISR", labels=labels
    )
    yield from (under, isr)
    for piece in _pieces(partitions):
        under.samples, isr.samples = [], []
        for partition in piece:
            if partition.is_leader:
                values = [partition.tp.topic, str(partition.tp.partition)]
                under.add_metric(values, is_under_replicated(partition))
                isr.add_metric(values, len(partition.in_sync.members))
        yield from (under, isr)


def _cumulative(buckets: Iterable[int]) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*map(str, BUCKETS_MS), "+Inf"), buckets, strict=True):
        total += count
        yield bound, total


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value)


_Item = TypeVar("_Item")


def _pieces(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(items), STEP):
        yield items[start : start + STEP]


class _Piece(Collector):
    """Some samples of a family."""

    def __init__(self, family: Metric, samples: Sequence[Sample]) -> None:
        self._family = Metric(family.name, family.documentation, family.type)
        self._family.samples = list(samples)

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def text_in_steps(collector: Collector) -> Generator[None, None, bytes]:
    """Prometheus' text format; a family that comes in pieces has all its lines in one place."""
    texts: dict[str, list[bytes]] = {}
    for family in collector.collect():
        for samples in _pieces(family.samples) if family.samples else ([],):
            text = generate_latest(_Piece(family, samples))
            if family.name in texts:
                # Without the lines of help and type.
                texts[family.name].append(text.split(b"\n", 2)[2])
            else:
                texts[family.name] = [text]
            yield
    return b"".join(text for family_texts in texts.values() for text in family_texts)
