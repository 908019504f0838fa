"""A client that sends what it is told to, for tests of SASL on the wire."""

from __future__ import annotations

import asyncio
import struct

from ottla.wire import framing
from ottla.wire import messages as m
from ottla.wire.codec import Message
from tests.support.integration.local_cluster import HOST
from tests.support.integration.secure_cluster import SecureCluster


class SaslPeer:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, cluster: SecureCluster) -> SaslPeer:
        return cls(*await asyncio.open_connection(HOST, cluster.port(0)))

    def send(self, message: Message, version: int) -> None:
        self._writer.writelines(framing.encode_request(message, version, 1, "raw"))

    def send_frame(self, frame: bytes) -> None:
        self._writer.write(struct.pack(">i", len(frame)) + frame)

    async def frame(self) -> bytes | None:
        """The next frame, None where the other side closed without one."""
        try:
            async with asyncio.timeout(5):
                size = struct.unpack(">i", await self._reader.readexactly(4))[0]
                return await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def answer(self, message: Message, version: int) -> Message | None:
        self.send(message, version)
        frame = await self.frame()
        if frame is None:
            return None
        response_class = m.response_class(message.API_KEY)
        _, offset = framing.decode_response_header(frame, message.API_KEY, version)
        return response_class.decode(frame, version, offset)[0]
