"""Connection strings: `host:port,host:port/chroot`. Pure."""

from __future__ import annotations

from ottla.errors import OttlaError
from ottla.metadata.store import BadArgumentsError
from ottla.zk.paths import validate

DEFAULT_PORT = 2181


class BadConnectString(OttlaError):
    """A connection string that names no server; the message says what is wrong."""


def parse(connect_string: str) -> tuple[list[tuple[str, int]], str]:
    """The servers and the chroot ("" for none)."""
    servers, slash, below = connect_string.partition("/")
    chroot = slash + below.rstrip("/") if below.strip("/") else ""
    if chroot:
        try:
            validate(chroot)
        except BadArgumentsError:
            raise BadConnectString(f"{chroot!r} is not a legal chroot") from None
    hosts = [_parse_host(part.strip()) for part in servers.split(",") if part.strip()]
    if not hosts:
        raise BadConnectString(f"{connect_string!r} names no server")
    return hosts, chroot


def _parse_host(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), DEFAULT_PORT
    if not port.isdecimal() or not 0 < int(port) < 65536 or not host:
        raise BadConnectString(f"{text!r} is not host:port")
    return host.strip("[]"), int(port)
