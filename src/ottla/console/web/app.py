"""The application: routes of all pages, live feeds, login, static files."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount
from starlette.routing import Route as HttpRoute
from starlette.staticfiles import StaticFiles

from ottla.console.web.access import (
    MECHANISMS,
    Visitor,
    Visitors,
    check_mechanism,
    likely_mechanism,
)
from ottla.console.web.failures import ApiError, from_exception, not_found
from ottla.console.web.guards import COOKIE, SESSION_PATH, TOKEN_HEADER, Guards
from ottla.console.web.openapi import document
from ottla.console.web.routes import (
    Attachment,
    Call,
    Feed,
    Route,
    read_body,
    read_query,
    wants_preview,
)

if TYPE_CHECKING:
    from starlette.requests import Request

    from ottla.console.settings import ConsoleSettings
    from ottla.runtime import Runtime

logger = logging.getLogger(__name__)

STATIC = Path(__file__).parents[1] / "static"
_LOGIN_BYTES = 10_000


class Login(msgspec.Struct):
    mechanism: str
    username: str
    password: str


class Console:
    """Everything that answers HTTP, over one `Visitors`."""

    def __init__(
        self,
        settings: ConsoleSettings,
        runtime: Runtime,
        routes: Sequence[Route],
        feeds: Sequence[Feed],
    ) -> None:
        check_mechanism(settings)
        self._settings = settings
        self.visitors = Visitors(settings, runtime, runtime.clock.monotonic_ms)
        self._feeds = {feed.name: feed for feed in feeds}
        self._document = msgspec.json.encode(document(routes, feeds))
        self._routes = routes

    def app(self) -> Starlette:
        api = [
            HttpRoute(SESSION_PATH, self._tell_session, methods=["GET"]),
            HttpRoute(SESSION_PATH, self._log_in, methods=["POST"]),
            HttpRoute(SESSION_PATH, self._log_out, methods=["DELETE"]),
            HttpRoute("/api/v1/openapi.json", self._tell_document, methods=["GET"]),
            HttpRoute("/api/v1/live/{feed}", self._live, methods=["GET"]),
            *(
                HttpRoute(f"/api/v1{route.path}", self._endpoint(route), methods=[route.method])
                for route in self._routes
            ),
            HttpRoute("/api/{rest:path}", self._unknown, methods=["GET", "POST", "PUT", "DELETE"]),
        ]
        pages = [
            Mount("/static", StaticFiles(directory=STATIC)),
            HttpRoute("/{rest:path}", _page, methods=["GET"]),
        ]
        guards = Middleware(Guards, names=frozenset(map(str.lower, self._settings.names)))
        return Starlette(
            routes=[*api, *pages],
            middleware=[guards],
            exception_handlers={Exception: _own_mistake},
            lifespan=self._lifespan,
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        tidying = asyncio.ensure_future(self.visitors.keep_tidy())
        try:
            yield
        finally:
            tidying.cancel()
            await self.visitors.close()

    async def _tell_session(self, request: Request) -> Response:
        visitor = await self.visitors.greet(request.cookies.get(cookie_name(request)))
        return self._session_answer(visitor, request)

    async def _log_in(self, request: Request) -> Response:
        try:
            visitor = self._known(request)
            _check_token(request, visitor)
            login: Login = read_body(Login, await _bounded_body(request, _LOGIN_BYTES))
            newcomer = await self.visitors.log_in(
                visitor, login.mechanism, login.username, login.password
            )
        except Exception as error:
            return _failed(error)
        return self._session_answer(newcomer, request)

    async def _log_out(self, request: Request) -> Response:
        try:
            visitor = self._known(request)
            _check_token(request, visitor)
            await self.visitors.forget(visitor)
        except Exception as error:
            return _failed(error)
        answer = _json({})
        answer.delete_cookie(cookie_name(request))
        return answer

    def _session_answer(self, visitor: Visitor, request: Request) -> Response:
        access = visitor.access
        answer = _json(
            {
                "token": visitor.token,
                "user": None if access is None else access.user,
                "is_in": access is not None,
                "needs_login": self._settings.needs_login,
                "mechanisms": MECHANISMS,
                "mechanism": likely_mechanism(self._settings),
                "read_only": self._settings.read_only,
                "bootstrap": self._settings.bootstrap,
            }
        )
        answer.set_cookie(
            cookie_name(request),
            visitor.cookie,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _tell_document(self, _request: Request) -> Response:
        return Response(self._document, media_type="application/json")

    async def _unknown(self, request: Request) -> Response:
        return _failed(not_found(f"There is no {request.url.path}: see /api/v1/openapi.json."))

    async def _live(self, request: Request) -> Response:
        try:
            visitor = self._known(request)
            feed = self._feeds.get(request.path_params["feed"])
            if feed is None:
                raise not_found("There is no such feed: see /api/v1/openapi.json.")
            query = read_query(feed.query, request.query_params)
            call = self._call(visitor, {}, query)
            events = call.access.feeds.watch(
                feed.name, repr(query), lambda: feed.open(call), feed.interval_s
            )
        except Exception as error:
            return _failed(error)
        return StreamingResponse(events, media_type="text/event-stream")

    def _endpoint(self, route: Route) -> Any:
        async def endpoint(request: Request) -> Response:
            try:
                if route.writes:
                    return _json(await self._carry_out(route, request))
                answer = await _while_wanted(request, self._carry_out(route, request))
                return _attached(answer) if isinstance(answer, Attachment) else _json(answer)
            except Exception as error:
                return _failed(error)

        return endpoint

    async def _carry_out(self, route: Route, request: Request) -> Any:
        visitor = self._known(request)
        query = read_query(route.query, request.query_params)
        call = self._call(visitor, request.path_params, query)
        if not route.writes:
            return await route.handler(call)
        _check_token(request, visitor)
        body = read_body(route.body, await _bounded_body(request, route.max_body_bytes))
        call = self._call(visitor, request.path_params, query, body)
        if wants_preview(request.query_params.getlist("preview")):
            assert route.commands is not None
            preview = None if route.preview is None else await route.preview(call)
            return {"commands": list(route.commands(call)), "preview": preview}
        if self._settings.read_only:
            raise ApiError(403, "READ_ONLY", "This console was started with --read-only.")
        return await route.handler(call)

    def _known(self, request: Request) -> Visitor:
        visitor = self.visitors.find(request.cookies.get(cookie_name(request)))
        if visitor is None:
            raise ApiError(401, "NO_SESSION", "Ask GET /api/v1/session first.")
        return visitor

    def _call(
        self, visitor: Visitor, path: dict[str, str], query: Any = None, body: Any = None
    ) -> Call:
        if visitor.access is None:
            raise ApiError(401, "LOGIN_REQUIRED", "Log in first: the cluster asks who is there.")
        return Call(visitor.access, self._settings, path, query, body)


def cookie_name(request: Request) -> str:
    """Browsers keep cookies by host, whatever the port: two consoles on one machine would take
    each other's away."""
    port = request.url.port
    return COOKIE if port is None else f"{COOKIE}_{port}"


def _check_token(request: Request, visitor: Visitor) -> None:
    given = request.headers.get(TOKEN_HEADER, "")
    if not secrets.compare_digest(given.encode(), visitor.token.encode()):
        raise ApiError(403, "WRONG_TOKEN", "X-Ottla-Token is not the one of this session.")


async def _bounded_body(request: Request, most: int) -> bytes:
    """Raises ApiError as soon as more has come."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise ApiError(413, "BODY_TOO_LARGE", f"At most {most:,} bytes.")
    except ClientDisconnect:
        raise _gone() from None
    return bytes(body)


def _gone() -> ApiError:
    return ApiError(499, "GONE", "Nobody waits for the answer.")


async def _while_wanted(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """The result; a browser that has gone cancels what it asked for."""
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_leave(request))
    try:
        await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _gone()
        return await task
    finally:
        task.cancel()
        leaving.cancel()


async def _leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _attached(file: Attachment) -> Response:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(file.data, media_type="application/octet-stream", headers=headers)


async def _page(request: Request) -> Response:
    """Every page is the same file; the script in it reads the path."""
    return FileResponse(STATIC / "index.html", headers={"cache-control": "no-cache"})


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def _failed(error: Exception) -> Response:
    failure = from_exception(error)
    if failure is None:
        logger.exception("a request to the console failed by a mistake of its own")
        failure = ApiError(500, "CONSOLE_FAILED", "The console failed: its log says why.")
    return JSONResponse(failure.to_json(), status_code=failure.status)


async def _own_mistake(_request: Request, error: Exception) -> Response:
    return _failed(error)
