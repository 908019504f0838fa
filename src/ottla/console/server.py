"""Runs the console's application on a socket until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn

from ottla.console.api import FEEDS, ROUTES
from ottla.console.web.app import Console
from ottla.console.web.connections import Connection
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.console.settings import ConsoleSettings
    from ottla.runtime import Runtime

_BACKLOG = 128
_MAX_CONNECTIONS = 512
# Pages that are open hold a stream each; nobody waits for them.
_LEAVE_S = 1


class _Server(uvicorn.Server):
    """Says when it is ready; signals are the business of whoever runs it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(settings: ConsoleSettings) -> socket.socket:
    """Raises OttlaError for an address that cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except BaseException:
            listener.close()
            raise
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        if error.errno == errno.EADDRINUSE:
            raise OttlaError(f"{where} is in use: choose another --port") from None
        raise OttlaError(f"cannot listen on {where}: {error.strerror or error}") from None
    return listener


async def serve(
    settings: ConsoleSettings,
    runtime: Runtime,
    listener: socket.socket,
    stop: asyncio.Future[None],
    ready: Callable[[], None],
) -> None:
    """Until `stop` is done; `ready` is called when browsers are answered."""
    config = uvicorn.Config(
        Console(settings, runtime, ROUTES, FEEDS).app(),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        http=Connection,
        ws="none",
        timeout_graceful_shutdown=_LEAVE_S,
        # Whoever stands in front may not say by which scheme or from where somebody came.
        proxy_headers=False,
    )
    server = _Server(config, ready)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving


def url(settings: ConsoleSettings, listener: socket.socket) -> str:
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(settings.host, settings.host)
    port = listener.getsockname()[1]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
