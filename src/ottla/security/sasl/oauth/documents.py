"""What lies at a `file://` or `https://` address, bounded in size and time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.parse import unquote, urlsplit
from urllib.request import Request, build_opener

_TIMEOUT_S = 10.0
MAX_BYTES = 1024 * 1024


class BadAddress(OSError):
    """An address that is neither a file nor one of HTTP."""


async def read_document(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> bytes:
    """With a body it is posted; raises OSError. Runs beside the event loop."""
    return await asyncio.to_thread(_read, url, body, dict(headers or {}))


def _read(url: str, body: bytes | None, headers: dict[str, str]) -> bytes:
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            document = file.read(MAX_BYTES + 1)
    elif parts.scheme in ("https", "http"):
        # An opener of our own: no proxies, no other schemes behind a redirect.
        request = Request(url, data=body, headers=headers)
        try:
            with build_opener().open(request, timeout=_TIMEOUT_S) as answer:
                document = answer.read(MAX_BYTES + 1)
        except URLError as error:
            raise OSError(f"{error.reason}") from None
    else:
        raise BadAddress(f"{url!r} is neither file:// nor https://")
    if len(document) > MAX_BYTES:
        raise OSError(f"more than {MAX_BYTES} bytes")
    return bytes(document)
