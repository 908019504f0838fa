"""One module per page: the routes and feeds that it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.console.api import (
    cluster,
    configs,
    groups,
    life,
    messages,
    pipelines,
    placement,
    quotas,
    rights,
    topic,
    topic_changes,
    topics,
    trash,
    users,
    znodes,
)

if TYPE_CHECKING:
    from ottla.console.web.routes import Feed, Route

_PAGES = (
    cluster,
    topics,
    topic,
    topic_changes,
    trash,
    configs,
    placement,
    life,
    messages,
    groups,
    pipelines,
    znodes,
    rights,
    quotas,
    users,
)

ROUTES: list[Route] = [route for page in _PAGES for route in page.ROUTES]
FEEDS: list[Feed] = [feed for page in _PAGES for feed in page.FEEDS]
