"""How long one connection has the event loop before others get their turn."""

from __future__ import annotations

# Of the monotonic clock: the loop's own stands still while a connection is served.
TURN_MS = 5.0
