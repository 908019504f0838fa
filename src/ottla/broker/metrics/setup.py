"""A broker's metrics from its config: what is counted from the start, and where it is served."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from ottla.config.values import comma_separated
from ottla.errors import InvariantViolated

if TYPE_CHECKING:
    from ottla.broker.metrics.counts import IsrCounter, RequestMetrics
    from ottla.broker.metrics.export import WatchedBroker
    from ottla.broker.metrics.http import MetricsServer
    from ottla.broker.replication.alter_isr import AlterIsrManager
    from ottla.broker.replication.replica_manager import ReplicaManager
    from ottla.config.broker import BrokerConfig
    from ottla.runtime import Network
    from ottla.types import TopicPartition

logger = logging.getLogger(__name__)

PORT_CONFIG = "ottla.metrics.port"
HOSTS_CONFIG = "ottla.metrics.hosts"
_OFF = -1


class Metrics:
    """The counters of one broker and the server that shows them."""

    def __init__(
        self,
        requests: RequestMetrics,
        isr_changes: IsrCounter,
        host: str,
        port: int,
        names: Collection[str] = (),
    ) -> None:
        """`names` are those by which the broker may be asked."""
        self._names = names
        self.requests = requests
        self.isr_changes = isr_changes
        self._host = host
        self._port = port
        self._server: MetricsServer | None = None

    @property
    def port(self) -> int:
        if self._server is None:
            raise InvariantViolated("the metrics are not served yet")
        return self._server.port

    async def serve(
        self,
        broker: WatchedBroker,
        network: Network,
        controller_gauges: Callable[[], dict[str, float]],
        connection_count: Callable[[], int],
    ) -> None:
        # prometheus_client costs more to import than all of a broker: only here.
        from ottla.broker.metrics.export import BrokerCollector, text_in_steps
        from ottla.broker.metrics.http import MetricsServer

        collector = BrokerCollector(
            broker, self.requests, self.isr_changes, controller_gauges, connection_count
        )
        self._server = MetricsServer(lambda: text_in_steps(collector), self._names)
        await self._server.start(network, self._host, self._port)
        logger.info("metrics on http://%s:%d/metrics", self._host, self._server.port)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()


def metrics_of(
    config: BrokerConfig, alter_isr: AlterIsrManager, manager: Callable[[], ReplicaManager]
) -> Metrics | None:
    """None where the broker has no port for them."""
    port = config.integer(PORT_CONFIG)
    if port == _OFF:
        return None
    from ottla.broker.metrics.counts import IsrCounter, RequestMetrics

    def isr_size(tp: TopicPartition) -> int:
        partition = manager().partitions.get(tp)
        return 0 if partition is None else len(partition.in_sync.members)

    host = config.listeners[0].host
    names = comma_separated(config.text(HOSTS_CONFIG))
    names += [endpoint.host for endpoint in (*config.listeners, *config.advertised_listeners)]
    return Metrics(RequestMetrics(), IsrCounter(alter_isr, isr_size), host, port, names)
