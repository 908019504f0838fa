"""From a frame to a running handler, and from its result to the bytes of the answer.

No sockets here: `broker/network/connection.py` feeds frames in and writes what comes out.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Coroutine, Generator
from dataclasses import dataclass
from types import coroutine
from typing import TYPE_CHECKING, Any

from ottla.broker.context.request import CloseConnection, RequestContext
from ottla.broker.handlers import ROUTES_BY_KEY, LoadedRoute, load
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import StoreError
from ottla.wire import framing
from ottla.wire.codec import WireError

if TYPE_CHECKING:
    from ottla.broker.context.listener_roles import Sender
    from ottla.broker.context.services import BrokerServices

logger = logging.getLogger(__name__)

_PRODUCE = 0
_API_VERSIONS = 18
# api_key, api_version and correlation_id open every request header, whatever its version.
_HEADER_START = struct.Struct(">hhi")


@dataclass(slots=True)
class Call:
    """One request under way: its handler's coroutine and how its answer is encoded."""

    loaded: LoadedRoute
    # Both None for an ApiVersions request of an unknown version.
    request: Any
    header: framing.RequestHeader | None
    answer_version: int
    correlation_id: int
    running: Any = None


def begin(
    services: BrokerServices, frame: memoryview, listener: str, client_host: str, principal: str
) -> Call:
    """Decodes a request and prepares its handler; raises CloseConnection where no answer exists."""
    call = read(frame)
    if call.header is None:
        call.running = _unsupported_api_versions(call.loaded)
        return call
    route = call.loaded.route
    roles = services.listener_roles
    if route.sender is not None and not roles.may_come_from(route.sender, listener):
        call.running = _refuse_sender(route.name, route.sender, listener, client_host)
        return call
    context = RequestContext(
        services,
        call.header,
        route.name,
        listener,
        client_host,
        principal,
        services.authorizer,
        roles.is_peer(listener),
    )
    call.running = call.loaded.handle(context, call.request)
    return call


def read(frame: memoryview) -> Call:
    """Decodes a request; nothing runs yet."""
    if len(frame) < _HEADER_START.size:
        raise CloseConnection(f"a frame of {len(frame)} bytes is too short for a request header")
    api_key, version, correlation_id = _HEADER_START.unpack_from(frame)
    route = ROUTES_BY_KEY.get(api_key)
    if route is None:
        raise CloseConnection(f"unknown API key {api_key}")
    loaded = load(route)
    if not route.min_version <= version <= route.max_version:
        if api_key != _API_VERSIONS:
            raise CloseConnection(f"{route.name} version {version} is not supported")
        # KIP-511: the one API that answers an unknown version, in the form of version 0.
        return Call(loaded, None, None, 0, correlation_id)
    try:
        header, offset = framing.decode_request_header(frame)
        request, _ = loaded.request_class.decode(frame, version, offset)
    except WireError as error:
        raise CloseConnection(f"{route.name} version {version} cannot be read: {error}") from None
    return Call(loaded, request, header, version, correlation_id)


async def _refuse_sender(name: str, sender: Sender, listener: str, client_host: str) -> Any:
    raise KafkaError(
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        f"{name} is for {sender.value}, which does not use listener {listener} ({client_host})",
    )


async def _unsupported_api_versions(loaded: LoadedRoute) -> Any:
    return unsupported_api_versions(loaded)


def unsupported_api_versions(loaded: LoadedRoute) -> Any:
    """KIP-511."""
    # Only the entry of key 18: clients pick their next version from it (franz-go insists).
    route = loaded.route
    response = loaded.response_class
    return response(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            response.ApiVersion(
                api_key=route.api_key, min_version=route.min_version, max_version=route.max_version
            )
        ],
    )


def encode_answer(call: Call, response: Any) -> list[bytes | memoryview]:
    """The frame to send, empty where the request wants no answer."""
    if call.loaded.route.api_key == _PRODUCE and call.request.acks == 0:
        if response is not None and _has_produce_error(response):
            # Nothing may be sent for acks=0; a closed connection is how the producer learns of it.
            raise CloseConnection("a produce request with acks=0 failed")
        return []
    if response is None:
        return []
    return framing.encode_response(response, call.answer_version, call.correlation_id)


def _has_produce_error(response: Any) -> bool:
    return any(
        partition.error_code != ErrorCode.NONE
        for topic in response.responses
        for partition in topic.partition_responses
    )


def encode_failure(
    call: Call, error: Exception, throttle_time_ms: int = 0
) -> list[bytes | memoryview]:
    """The API's own error form of a handler's exception; raises CloseConnection without one."""
    from ottla.broker.requests.error_responses import error_response  # rare path

    name = call.loaded.route.name
    if isinstance(error, CloseConnection):
        raise error
    if isinstance(error, KafkaError):
        code, message = error.code, error.message
        logger.info("%s failed with %s: %s", name, code.name, error)
    elif isinstance(error, StoreError):
        # The store was away or the session ended: nothing here is broken.
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        logger.warning("%s was not done, the store failed: %r", name, error)
    else:
        code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
        logger.error("%s failed unexpectedly", name, exc_info=error)
    if call.loaded.route.api_key == _PRODUCE and call.request.acks == 0:
        raise CloseConnection("a produce request with acks=0 failed")
    response = error_response(call.loaded, call.request, call.answer_version, code, message)
    if response is None:
        raise CloseConnection(f"{name} failed and has no error form")
    if throttle_time_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_time_ms
    try:
        return framing.encode_response(response, call.answer_version, call.correlation_id)
    except WireError as unsayable:
        # A peer that gets no answer at all would wait for good.
        raise CloseConnection(f"{name} failed, and so did its error form: {unsayable}") from None


@coroutine
def resume(running: Coroutine[Any, Any, Any], waiting: Any) -> Generator[Any, Any, Any]:
    """Goes on with a coroutine whose first step was already taken and yielded `waiting`.

    Lets a handler that finishes without waiting run with no task at all; Python 3.12's eager
    tasks do the same.
    """
    while True:
        try:
            sent = yield waiting
        except BaseException as error:  # cancellation must reach the coroutine
            thrown: BaseException | None = error
        else:
            thrown = None
        try:
            waiting = running.send(sent) if thrown is None else running.throw(thrown)
        except StopIteration as stop:
            return stop.value
