"""ApiVersions (18), versions 0 to 4.

Behaviour: lists every route of `ROUTES` with its versions, on every listener.
Versions: the response header is version 0 in all of them. An unknown version is answered by the
dispatcher in v0 form with UNSUPPORTED_VERSION and the entry of key 18 alone (KIP-511). From v3 on
the client's software name and version are checked (INVALID_REQUEST).
Left out: features (none are supported or finalised, so the tagged fields stay absent).
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from ottla.errors import ErrorCode
from ottla.wire import messages as m

if TYPE_CHECKING:
    from ottla.broker.context.request import RequestContext

# ApiVersionsRequest.isValid (KIP-511).
_SOFTWARE_WORD = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(ctx: RequestContext, request: m.ApiVersionsRequest) -> m.ApiVersionsResponse:
    return answer(ctx.version, request)


def answer(version: int, request: m.ApiVersionsRequest) -> m.ApiVersionsResponse:
    """Also asked for by connections that are still to authenticate."""
    if version >= 3 and not (
        _SOFTWARE_WORD.fullmatch(request.client_software_name)
        and _SOFTWARE_WORD.fullmatch(request.client_software_version)
    ):
        return m.ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return supported_versions()


def supported_versions() -> m.ApiVersionsResponse:
    """All routes with their versions."""
    return m.ApiVersionsResponse(api_keys=list(_ranges()))


@cache
def _ranges() -> tuple[m.ApiVersionsResponse.ApiVersion, ...]:
    # Made once: nobody changes them, and every new connection asks.
    from ottla.broker.handlers import ROUTES

    return tuple(
        m.ApiVersionsResponse.ApiVersion(
            api_key=route.api_key, min_version=route.min_version, max_version=route.max_version
        )
        for route in ROUTES
    )
