"""A step of a resize is asked for, and brokers answer (ADR 53)."""

from __future__ import annotations

from ottla.controller.context import ControllerContext
from ottla.controller.events import (
    AbortResize,
    BeginResize,
    FenceResize,
    FinishResize,
    ResizeOrderResponseReceived,
    ResizeTick,
)
from ottla.controller.resizing import progress
from ottla.controller.resizing.progress import Begun, Fenced, Resized, Waiting
from ottla.controller.steps import Steps
from ottla.errors import KafkaError


def on_begin_resize(ctx: ControllerContext, event: BeginResize) -> Steps[KafkaError | Begun]:
    return (yield from progress.begin(ctx, event))


def on_fence_resize(
    ctx: ControllerContext, event: FenceResize
) -> Steps[KafkaError | Fenced | Waiting]:
    return (yield from progress.fence(ctx, event))


def on_finish_resize(
    ctx: ControllerContext, event: FinishResize
) -> Steps[KafkaError | Resized | Waiting]:
    return (yield from progress.finish(ctx, event))


def on_abort_resize(ctx: ControllerContext, event: AbortResize) -> Steps[KafkaError | bool]:
    """True where it is undone; None would say that there is no controller."""
    return (yield from progress.abort(ctx, event)) or True


def on_resize_order_response(
    ctx: ControllerContext, event: ResizeOrderResponseReceived
) -> Steps[None]:
    yield from progress.take_answer(ctx, event)


def on_resize_tick(ctx: ControllerContext, event: ResizeTick) -> Steps[None]:
    yield from progress.tick(ctx, event)
