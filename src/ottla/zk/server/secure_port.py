"""A second port on which clients speak TLS, `secureClientPort` in ZooKeeper's words.

The store knows nothing of TLS itself: `wrap` puts it between the socket and a connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple


class SecurePort(NamedTuple):
    port: int
    wrap: Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]
