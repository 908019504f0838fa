"""A controller's memory without a controller."""

from __future__ import annotations

from ottla.controller.config import ControllerConfig
from ottla.controller.context import ControllerContext
from ottla.controller.journal import Journal
from tests.support.controller.controlled_cluster import runtime


def empty_context(*, strict_transitions: bool = True, **config: int) -> ControllerContext:
    return ControllerContext(
        0,
        ControllerConfig(**config),
        Journal(runtime().clock, 0),
        bytes,
        epoch=1,
        epoch_zk_version=1,
        strict_transitions=strict_transitions,
    )
