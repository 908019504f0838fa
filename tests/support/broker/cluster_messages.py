"""Builders of UpdateMetadata requests and request contexts, shared by the broker's tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from ottla.bounds.turns import Turns
from ottla.broker.context.request import RequestContext
from ottla.broker.membership.metadata_cache import MetadataCache
from ottla.broker.replication.order_epochs import OrderEpochs
from ottla.broker.replication.order_log import OrderLog
from ottla.types import ZERO_TOPIC_ID
from ottla.wire import messages as m
from ottla.wire.framing import RequestHeader

Update = m.UpdateMetadataRequest


def partition(
    index: int,
    leader: int = 1,
    replicas: Sequence[int] = (1, 2),
    isr: Sequence[int] | None = None,
    offline: Sequence[int] = (),
) -> Update.UpdateMetadataPartitionState:
    return Update.UpdateMetadataPartitionState(
        partition_index=index,
        leader=leader,
        leader_epoch=5,
        isr=list(replicas if isr is None else isr),
        replicas=list(replicas),
        offline_replicas=list(offline),
    )


def broker(
    broker_id: int, rack: str | None = None, listener: str = "PLAINTEXT"
) -> Update.UpdateMetadataBroker:
    endpoint = Update.UpdateMetadataEndpoint(
        port=9000 + broker_id, host=f"host{broker_id}", listener=listener, security_protocol=0
    )
    return Update.UpdateMetadataBroker(id=broker_id, endpoints=[endpoint], rack=rack)


def update(
    topics: Mapping[str, Sequence[Update.UpdateMetadataPartitionState]] | None = None,
    *,
    brokers: Sequence[Update.UpdateMetadataBroker] = (),
    ids: Mapping[str, bytes] | None = None,
    controller_id: int = 1,
    controller_epoch: int = 1,
    broker_epoch: int = -1,
) -> m.UpdateMetadataRequest:
    return Update(
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        topic_states=[
            Update.UpdateMetadataTopicState(
                topic_name=name,
                topic_id=(ids or {}).get(name, ZERO_TOPIC_ID),
                partition_states=list(states),
            )
            for name, states in (topics or {}).items()
        ],
        live_brokers=list(brokers) or [broker(1), broker(2)],
    )


def context(
    version: int,
    *,
    cache: MetadataCache | None = None,
    listener: str = "PLAINTEXT",
    **services: Any,
) -> RequestContext:
    known: dict[str, Any] = {
        "metadata_cache": cache or MetadataCache(),
        "cluster_id": "cluster",
        "broker_id": 1,
        "turns": Turns(),
        "tls": None,
        "orders": SimpleNamespace(epochs=OrderEpochs(), log=OrderLog(1)),
    }
    known.update(services)
    header = RequestHeader(0, version, 1, "test")
    return RequestContext(SimpleNamespace(**known), header, "Produce", listener, "127.0.0.1")  # type: ignore[arg-type]
