"""Log managers on folders of a test, with a clock that stands still."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.runtime import Disk, Runtime, SystemDisk, SystemNetwork
from ottla.storage.manager.log_manager import LogManager
from ottla.topics.configs import LogConfig
from tests.support.storage.log_helpers import ManualClock

TOPIC_ID = bytes(range(16))


def manager(
    *folders: Path, disk: Disk | None = None, clock: ManualClock | None = None, **topic: object
) -> LogManager:
    properties = {
        "broker.id": "1",
        "zookeeper.connect": "x:1",
        "log.dirs": ",".join(str(folder) for folder in folders),
    }
    used = disk or SystemDisk()
    return LogManager(
        Runtime(clock or ManualClock(), random.Random(3), SystemNetwork(), used),
        BrokerConfig.from_properties(properties),
        lambda _: LogConfig(**topic),  # type: ignore[arg-type]
    )
