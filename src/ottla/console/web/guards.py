"""What has to be right about a request before anything is done for it, and what every answer says.

Against pages of others in the same browser: the Host must be ours (DNS rebinding), the Origin the
same, cookies are not sent along from elsewhere (SameSite=Strict), and writes carry a token that
only our own page can have read. The policy lets nothing run that is not a file of the console.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from ottla.console.web.failures import ApiError
from ottla.security.own_hosts import names_us

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "ottla_console"
SESSION_PATH = "/api/v1/session"
TOKEN_HEADER = "x-ottla-token"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
_ALWAYS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Guards:
    """Around the whole application."""

    def __init__(self, app: ASGIApp, *, names: frozenset[str]) -> None:
        self._app = app
        self._names = names | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers[name] = value
                if scope["path"].startswith("/api/"):
                    headers["cache-control"] = "no-store"
            await send(message)

        refusal = self.refusal(Headers(scope=scope), scope["method"], scope["path"])
        if refusal is None:
            await self._app(scope, receive, send_guarded)
            return
        from starlette.responses import JSONResponse

        answer = JSONResponse(refusal.to_json(), status_code=refusal.status)
        await answer(scope, receive, send_guarded)

    def refusal(self, headers: Headers, method: str, path: str = "/") -> ApiError | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not names_us(hosts[0], self._names):
            return ApiError(
                403,
                "WRONG_HOST",
                "By this name nobody asks here: use localhost or an address, or start the console "
                "with --allow-host NAME.",
            )
        origin = headers.get("origin")
        is_foreign = origin is not None and _netloc(origin) != hosts[0].lower()
        # Links from elsewhere may open a page; nothing else comes from there. The API is no page: a
        # link to it comes without the cookie (SameSite) and would go with a new one, and whoever
        # was logged in would be so no more.
        fetched = headers.get("sec-fetch-site", "same-origin")
        is_page = not path.startswith("/api/")
        is_opened = is_page and method == "GET" and headers.get("sec-fetch-mode") == "navigate"
        # Browsers say where a request is from to https and localhost only; what they open they
        # want as a page.
        is_opened_session = path == SESSION_PATH and "text/html" in headers.get("accept", "")
        if (
            is_opened_session
            or is_foreign
            or (fetched in ("cross-site", "same-site") and not is_opened)
        ):
            return ApiError(403, "WRONG_ORIGIN", "Only the console's own pages may ask this.")
        return None


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:  # brackets that do not close
        return None
