"""What clients with records share: the topics, the plan, the ledger, and when to come to an end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.simulation.ledger import Ledger
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.simulation.scenario import DataPlan
    from ottla.simulation.trace import Trace

# What a producer may be told while brokers fail; anything else says that a broker lost its way.
EXPECTED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    }
)


class Stage:
    """Once `is_ending`, producers finish what they have begun and the others read to the end."""

    def __init__(
        self,
        plan: DataPlan,
        seed: str,
        *,
        bootstrap: str,
        broker_ids: Sequence[int],
        trace: Trace,
        violated: Callable[[str], None],
        ledger: Ledger | None = None,
    ) -> None:
        self.plan = plan
        self.bootstrap = bootstrap
        self.broker_ids = broker_ids
        self.violated = violated
        self.ledger = ledger or Ledger(violated)
        self.topics = [f"data-{number}" for number in range(plan.topics if plan.producers else 0)]
        self.partitions = [
            TopicPartition(name, number)
            for name in self.topics
            for number in range(plan.partitions)
        ]
        self.groups = [f"group-{number}" for number in range(plan.groups if self.topics else 0)]
        self.is_ending = False
        self._seed = seed
        self._trace = trace

    def random_of(self, name: str) -> random.Random:
        """A client's own random numbers."""
        return random.Random(f"{self._seed}/data/{name}")

    def note(self, who: str, text: str) -> None:
        self._trace.add("data", f"{who} {text}")
