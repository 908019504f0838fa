"""One module per page: the routes and feeds that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.console.api import cluster, life

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed, Route

_PAGES = (cluster, life)

ROUTES: list[Route] = [route for page in _PAGES for route in page.ROUTES]
FEEDS: list[Feed] = [feed for page in _PAGES for feed in page.FEEDS]
