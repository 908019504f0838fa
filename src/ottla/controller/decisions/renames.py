"""A rename is asked for, and brokers answer."""

from __future__ import annotations

from ottla.controller.context import ControllerContext
from ottla.controller.events import CarryOffsetsResponseReceived, RenameTopic
from ottla.controller.renaming import progress
from ottla.controller.renaming.progress import Begun, Renamed
from ottla.controller.steps import Steps
from ottla.errors import KafkaError


def on_rename_topic(
    ctx: ControllerContext, event: RenameTopic
) -> Steps[KafkaError | Renamed | Begun]:
    return (yield from progress.begin(ctx, event))


def on_carry_offsets_response(
    ctx: ControllerContext, event: CarryOffsetsResponseReceived
) -> Steps[None]:
    yield from progress.take_answer(ctx, event)
