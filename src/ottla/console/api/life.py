"""The page Life of a topic: what happens inside?"""

from __future__ import annotations

import time

from ottla.console.life.watch import Life, LifeWatch, Record, take_record
from ottla.console.web.live import Source
from ottla.console.web.routes import Call, Feed, Route


async def record(call: Call) -> Record:
    """A file that the page can play again."""
    return await take_record(call.admin, int(time.time() * 1000))


def _open(call: Call) -> Source:
    return LifeWatch(call.admin)


ROUTES = [
    Route("GET", "/life/record", record, "What happened lately, to play again", answer=Record)
]
FEEDS = [
    Feed("life", "The controller's states, queue and steps", 0.5, _open, message=Life),
]
