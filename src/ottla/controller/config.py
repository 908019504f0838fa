"""The few broker settings that the controller follows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ControllerConfig:
    """Field names follow Kafka's properties. Read anew at each use: they may change."""

    delete_topic_enable: bool = True
    # ottla.delete.retention.ms, for topics that do not say so themselves.
    delete_retention_ms: int = 0
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_s: int = 300
    # control.plane.listener.name where set, else inter.broker.listener.name.
    control_listener: str = "PLAINTEXT"
    inter_broker_listener: str = "PLAINTEXT"
    controller_socket_timeout_ms: int = 30_000
