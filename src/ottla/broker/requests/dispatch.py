"""From a frame to a running handler, and from its result to the bytes of the answer.

No sockets here: `broker/network/connection.py` feeds frames in and writes what comes out.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ottla.broker.context.request import CloseConnection, RequestContext
from ottla.broker.handlers import ROUTES_BY_KEY, LoadedRoute, load
from ottla.errors import ErrorCode, KafkaError
from ottla.metadata.store import StoreError
from ottla.wire import framing
from ottla.wire.codec import TooLarge, WireError
from ottla.wire.framing import Chunks

if TYPE_CHECKING:
    from ottla.bounds.repeated_lines import RepeatedLines
    from ottla.bounds.turns import Turns
    from ottla.broker.context.listener_roles import Sender
    from ottla.broker.context.services import BrokerServices

logger = logging.getLogger(__name__)

_PRODUCE = 0
_FETCH = 1
_API_VERSIONS = 18
# A frame of at least this size is read in turns: it may hold as many entries as it has bytes.
LARGE_FRAME_BYTES = 32 * 1024
# Structs and strings in all arrays of a request, and every eighth number. A hundred bytes or more
# of memory go to each; the largest requests that make sense name 50,000 partitions.
MAX_REQUEST_ENTRIES = 250_000
# Those of a controller speak of all partitions of a cluster, with three lists of replicas each.
_MAX_ORDER_ENTRIES = 2_000_000
_ORDERS = frozenset({4, 5, 6})
# As much as a request may have (socket.request.max.bytes).
MAX_ANSWER_BYTES = 100 * 1024 * 1024
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


def is_eager(frame: memoryview) -> bool:
    """Whether a request is begun straight from the socket's callback; so is one that is refused."""
    if len(frame) < _HEADER_START.size:
        return True
    route = ROUTES_BY_KEY.get(_HEADER_START.unpack_from(frame)[0])
    return route is None or route.eager


def begin(
    services: BrokerServices,
    call: Call,
    listener: str,
    client_host: str,
    principal: str,
    *,
    by_token: bool = False,
    connection: int = 0,
) -> None:
    """Prepares the handler of a request."""
    if call.header is None:
        call.running = _unsupported_api_versions(call.loaded)
        return
    route = call.loaded.route
    roles = services.listener_roles
    if route.sender is not None and not roles.may_come_from(route.sender, listener):
        call.running = _refuse_sender(route.name, route.sender, listener, client_host)
        return
    context = RequestContext(
        services,
        call.header,
        route.name,
        listener,
        client_host,
        principal,
        by_token,
        services.authorizer,
        roles.peers is None or listener in roles.peers,
        roles.orders is None or listener in roles.orders,
        connection,
    )
    call.running = call.loaded.handle(context, call.request)


async def read_in_turns(frame: memoryview, turns: Turns) -> Call:
    """Decodes a large request together with what others have to do."""
    work = turns.start(_reading(frame))
    return work.result if work.is_done else await turns.finish(work)


def read(frame: memoryview) -> Call:
    """Decodes a request; nothing runs yet. Raises CloseConnection where no answer exists."""
    loaded, version, correlation_id = _identify(frame)
    if version is None:
        return Call(loaded, None, None, 0, correlation_id)
    try:
        header, offset = framing.decode_request_header(frame)
        request, _ = loaded.request_class.decode(frame, version, offset)
    except WireError as error:
        raise _unreadable(loaded, version, error) from None
    return Call(loaded, request, header, version, correlation_id)


def _reading(frame: memoryview) -> Generator[None, None, Call]:
    """As `read`, with a bound on what is made of the bytes."""
    loaded, version, correlation_id = _identify(frame)
    if version is None:
        return Call(loaded, None, None, 0, correlation_id)
    is_order = loaded.route.api_key in _ORDERS
    limit = _MAX_ORDER_ENTRIES if is_order else MAX_REQUEST_ENTRIES
    try:
        header, offset = framing.decode_request_header(frame)
        request, _ = yield from loaded.request_class.decode_in_turns(frame, version, offset, limit)
    except WireError as error:
        raise _unreadable(loaded, version, error) from None
    return Call(loaded, request, header, version, correlation_id)


def _identify(frame: memoryview) -> tuple[LoadedRoute, int | None, int]:
    """Which API, in which version, and the number of the request; no version where it is one of
    ApiVersions that nobody knows."""
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
        return loaded, None, correlation_id
    return loaded, version, correlation_id


def _unreadable(loaded: LoadedRoute, version: int, error: WireError) -> CloseConnection:
    return CloseConnection(f"{loaded.route.name} version {version} cannot be read: {error}")


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


def encode_answer(call: Call, response: Any) -> Chunks | Generator[None, None, Chunks]:
    """The frame to send, empty where the request wants no answer. One that may be long is made by a
    generator, which may be left at every `yield` and raises TooLarge."""
    api_key = call.loaded.route.api_key
    if api_key == _PRODUCE and call.request.acks == 0:
        if response is not None and _has_produce_error(response):
            # Nothing may be sent for acks=0; a closed connection is how the producer learns of it.
            raise CloseConnection("a produce request with acks=0 failed")
        return []
    if response is None:
        return []
    if api_key in (_PRODUCE, _FETCH):
        return framing.encode_response(response, call.answer_version, call.correlation_id)
    return _encode_bounded(call, response)


def as_answered(error: Exception) -> Exception:
    """An answer that became too large is told as what it is: the client asks for too much."""
    if isinstance(error, TooLarge):
        text = f"The answer would be too large, {error}: ask for less."
        return KafkaError(ErrorCode.INVALID_REQUEST, text)
    return error


def _encode_bounded(call: Call, response: Any) -> Generator[None, None, Chunks]:
    return framing.encode_response_in_turns(
        response, call.answer_version, call.correlation_id, MAX_ANSWER_BYTES
    )


def _has_produce_error(response: Any) -> bool:
    return any(
        partition.error_code != ErrorCode.NONE
        for topic in response.responses
        for partition in topic.partition_responses
    )


def log_failure(call: Call, error: Exception, lines: RepeatedLines, client_host: str) -> None:
    """Says why a request failed; a client that fails on purpose fills no log."""
    name = call.loaded.route.name
    if isinstance(error, CloseConnection):
        return
    if isinstance(error, KafkaError):
        text = "%s failed with %s: %s"
        about = name, error.code.name
        lines.log(logging.INFO, client_host, about, text, *about, error)
    elif isinstance(error, StoreError):
        # The store was away or the session ended: nothing here is broken.
        text = "%s was not done, the store failed: %r"
        lines.log(logging.WARNING, client_host, (name, type(error)), text, name, error)
    else:
        logger.error("%s failed unexpectedly", name, exc_info=error)


def encode_failure(
    call: Call, error: Exception, throttle_time_ms: int = 0
) -> Generator[None, None, Chunks]:
    """The API's own error form of a handler's exception; raises CloseConnection without one."""
    from ottla.broker.requests.error_responses import error_response  # rare path

    if isinstance(error, CloseConnection):
        raise error
    code, message = ErrorCode.UNKNOWN_SERVER_ERROR, None
    if isinstance(error, KafkaError):
        code, message = error.code, error.message
    if call.loaded.route.api_key == _PRODUCE and call.request.acks == 0:
        raise CloseConnection("a produce request with acks=0 failed")
    response = yield from error_response(
        call.loaded, call.request, call.answer_version, code, message
    )
    if response is None:
        raise CloseConnection(f"{call.loaded.route.name} failed and has no error form")
    if throttle_time_ms and hasattr(response, "throttle_time_ms"):
        response.throttle_time_ms = throttle_time_ms
    try:
        return (yield from _encode_bounded(call, response))
    except WireError as unsayable:
        # A peer that gets no answer at all would wait for good.
        raise CloseConnection(
            f"{call.loaded.route.name} failed, and so did its error form: {unsayable}"
        ) from None


def encode_whole(encoding: Generator[None, None, Chunks]) -> Chunks:
    """Encodes in one go what is known to be short."""
    while True:
        try:
            next(encoding)
        except StopIteration as stop:
            return cast("Chunks", stop.value)
