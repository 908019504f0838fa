"""A network whose connections are encrypted: clients and brokers connect through it unchanged."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace

from ottla.errors import HandshakeRefused
from ottla.runtime import Network, Runtime, Server
from ottla.security.tls.contexts import load_client_context
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import StoreLoader


class TlsNetwork:
    """`context` is asked for at every connection, so that new certificates are shown at once."""

    def __init__(self, network: Network, context: Callable[[], ssl.SSLContext]) -> None:
        self._network = network
        self._context = context

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> Server:
        return await self._network.listen(protocol_factory, host, port, ssl_context=ssl_context)

    async def connect(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        ssl_context: ssl.SSLContext | None = None,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Raises OSError, in words where it is a certificate that is refused."""
        try:
            return await self._network.connect(
                protocol_factory, host, port, ssl_context=ssl_context or self._context()
            )
        except ssl.SSLCertVerificationError as error:
            raise HandshakeRefused(
                f"SSL handshake failed: the certificate of {host}:{port} is refused: "
                f"{error.verify_message} (ssl.truststore.location says whom to trust)"
            ) from None
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise ConnectionError(
                f"SSL handshake failed: {host}:{port} closed the connection"
            ) from None
        except ssl.SSLError as error:
            words = str(error.reason or error).replace("_", " ").lower()
            raise HandshakeRefused(f"SSL handshake failed with {host}:{port}: {words}") from None


def client_runtime(runtime: Runtime, settings: TlsSettings | None) -> Runtime:
    """The same runtime with encrypted connections; raises ConfigError for stores that cannot be
    used. Without settings it is the runtime itself."""
    if settings is None:
        return runtime
    context = load_client_context(settings, StoreLoader(runtime.disk))
    return replace(runtime, network=TlsNetwork(runtime.network, lambda: context))
