"""What configs belong to and how they are edited, as Kafka's messages number it."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """ConfigResource.Type."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8


class ConfigOperation(IntEnum):
    """AlterConfigOp.OpType of IncrementalAlterConfigs (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
