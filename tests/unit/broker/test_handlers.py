"""The table of routes: complete, sorted, in step with the handlers and the schemas."""

from __future__ import annotations

import ast
from pathlib import Path

from ottla.broker import handlers
from ottla.broker.handlers import ROUTES
from ottla.wire import messages as m

FOLDER = Path(handlers.__file__).parent


def test_every_handler_file_is_routed_and_every_route_has_a_file() -> None:
    files = {path.stem for path in FOLDER.glob("*.py")} - {"__init__"}
    assert files == {route.module for route in ROUTES}


def test_routes_are_sorted_and_distinct() -> None:
    keys = [route.api_key for route in ROUTES]
    assert keys == sorted(set(keys))


def test_routes_name_the_schemas_apis() -> None:
    for route in ROUTES:
        request = m.request_class(route.api_key)
        assert request.__name__ == f"{route.name}Request"
        assert route.min_version == request.MIN_VERSION == 0
        # Held back so that a 3.x peer keeps to 2.8 behaviour.
        held = {"AlterPartition": 0, "AddPartitionsToTxn": 3}
        # Tokens for other users are younger.
        held |= {"CreateDelegationToken": 2, "DescribeDelegationToken": 2}
        expected = held.get(route.name, request.MAX_VERSION)
        assert route.max_version == expected, route


def test_every_handler_opens_with_the_same_header() -> None:
    modules = [path for path in FOLDER.glob("*.py") if path.stem != "__init__"]
    assert len(modules) == len({route.module for route in ROUTES})
    for path in modules:
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        route = next(r for r in ROUTES if r.module == path.stem)
        assert text.startswith(f"{route.name} ({route.api_key})"), path.name
        for part in ("Behaviour:", "Versions:", "Left out:"):
            assert part in text, f"{path.name} has no {part}"


def test_every_route_loads() -> None:
    for route in ROUTES:
        loaded = handlers.load(route)
        assert callable(loaded.handle)
        assert handlers.load(route) is loaded
