from __future__ import annotations

import json
import re

from ottla.console.api import FEEDS, ROUTES
from ottla.console.web.openapi import document


def test_every_route_is_described() -> None:
    made = document(ROUTES, FEEDS)
    assert made == json.loads(json.dumps(made))
    for route in ROUTES:
        operation = made["paths"][f"/api/v1{route.path}"][route.method.lower()]
        assert operation["summary"]
        in_path = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)", route.path)
        assert ("requestBody" in operation) == (route.body is not None)
    for feed in FEEDS:
        assert f"/api/v1/live/{feed.name}" in made["paths"]


def test_no_reference_leads_nowhere() -> None:
    made = document(ROUTES, FEEDS)
    named = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(made)))
    assert named <= made["components"]["schemas"].keys()


def test_no_two_operations_share_a_name() -> None:
    made = document(ROUTES, FEEDS)
    names = [
        operation["operationId"] for path in made["paths"].values() for operation in path.values()
    ]
    assert len(names) == len(set(names))
