"""What a broker process makes of its properties and of the store before it has any parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.controller.config import ControllerConfig
from ottla.errors import OttlaError
from ottla.metadata import znodes
from ottla.metadata.store import NoNodeError

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.store import MetadataStore


class StartError(OttlaError):
    """The broker cannot run with what it found; the text says why."""


async def check_features(store: MetadataStore) -> None:
    """Refuses a cluster that has finalised features: none are known here (KIP-584)."""
    try:
        data, _ = await store.get(znodes.FeatureZnode.path())
    except NoNodeError:
        return
    found = znodes.FeatureZnode.decode(data)
    if found.status == znodes.FeatureZnode.STATUS_ENABLED and found.features:
        names = ", ".join(sorted(found.features))
        raise StartError(f"the cluster has finalised features that this broker lacks: {names}")


async def with_dynamic_config(
    config: BrokerConfig, store: MetadataStore, broker_id: int
) -> BrokerConfig:
    levels = []
    for name in (znodes.DEFAULT_ENTITY, str(broker_id)):
        try:
            data, _ = await store.get(znodes.ConfigZnode.path(znodes.ConfigZnode.BROKERS, name))
        except NoNodeError:
            data = None
        levels.append(znodes.ConfigZnode.decode(data))
    return config.with_dynamic(*levels) if any(levels) else config


def controller_config(config: BrokerConfig) -> ControllerConfig:
    return ControllerConfig(
        delete_topic_enable=config.boolean("delete.topic.enable"),
        delete_retention_ms=config.integer("ottla.delete.retention.ms"),
        unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
        auto_leader_rebalance_enable=config.boolean("auto.leader.rebalance.enable"),
        leader_imbalance_per_broker_percentage=config.integer(
            "leader.imbalance.per.broker.percentage"
        ),
        leader_imbalance_check_interval_s=config.integer("leader.imbalance.check.interval.seconds"),
        control_listener=config.control_listener,
        inter_broker_listener=config.inter_broker_listener,
        controller_socket_timeout_ms=config.integer("controller.socket.timeout.ms"),
    )


def java_date(now_ms: int) -> str:
    """The comment line that java.util.Properties writes: Sun Nov 15 06:19:57 UTC 2026."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
