"""The OpenAPI document of the HTTP API, made of the routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ottla import __version__

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed, Route

_REFERENCE = "#/components/schemas/{name}"


class Failure(msgspec.Struct):
    """Why a call failed: Kafka's name of the error, in words, and the field at fault."""

    code: str
    message: str
    field: str | None = None


class Failed(msgspec.Struct):
    error: Failure


class Preview(msgspec.Struct):
    """What a write would do: the same by `ottla` commands, and what the route itself says of it."""

    commands: list[str]
    preview: Any = None


def document(routes: Sequence[Route], feeds: Sequence[Feed]) -> dict[str, Any]:
    kinds = [
        *(kind for route in routes for kind in (route.answer, route.body) if kind is not None),
        *(feed.message for feed in feeds),
        Failed,
        Preview,
    ]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    by_kind = {id(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, by_kind)
        paths.setdefault(f"/api/v1{route.path}", {})[route.method.lower()] = operation
    for feed in feeds:
        paths[f"/api/v1/live/{feed.name}"] = {"get": _live(feed, by_kind)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ottla console",
            "version": __version__,
            "description": "What the console's pages use. Paths below /api/v1 keep their form: "
            "fields are added, never taken away or given another meaning.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }


def _operation(route: Route, by_kind: dict[int, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)", route.path)
    ]
    parameters += _query_parameters(route.query)
    success: dict[str, Any] = by_kind[id(route.answer)]
    operation: dict[str, Any] = {
        "operationId": route.operation_id,
        "summary": route.summary,
        "parameters": parameters,
        "responses": {"200": _content("What was asked for.", success), **_failures()},
    }
    if route.writes:
        parameters.append(
            {
                "name": "preview",
                "in": "query",
                "description": "Write nothing: answer what would be done (Preview).",
                "schema": {"type": "boolean", "default": False},
            }
        )
        parameters.append(
            {
                "name": "X-Ottla-Token",
                "in": "header",
                "required": True,
                "description": "The token of GET /api/v1/session.",
                "schema": {"type": "string"},
            }
        )
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": by_kind[id(route.body)]}},
        }
    return operation


def _live(feed: Feed, by_kind: dict[int, Any]) -> dict[str, Any]:
    return {
        "operationId": f"live_{feed.name}",
        "summary": feed.summary,
        "parameters": _query_parameters(feed.query),
        "responses": {
            "200": {
                "description": "Server-sent events: `whole` first, then `news`; `problem` when the "
                "cluster cannot be asked, `mended` when it can again.",
                "content": {"text/event-stream": {"schema": by_kind[id(feed.message)]}},
            },
            **_failures(),
        },
    }


def _query_parameters(kind: Any) -> list[dict[str, Any]]:
    if kind is None:
        return []
    (_, components) = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    schema = components[kind.__name__]
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": value}
        for name, value in schema["properties"].items()
    ]


def _content(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _failures() -> dict[str, Any]:
    return {"default": _content("It failed.", {"$ref": _REFERENCE.format(name="Failed")})}
