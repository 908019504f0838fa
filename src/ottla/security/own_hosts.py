"""Whether a `Host` line of HTTP names this machine.

A page in somebody's browser whose name was made to point here (DNS rebinding) names its own host;
an address cannot be another's.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address


def names_us(host: str, names: Collection[str]) -> bool:
    """`host` may carry a port; `names` are in lower case."""
    name = host_name(host)
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def host_name(host: str) -> str:
    """Without port, brackets and the dot of a full name; in lower case."""
    name = host.lower()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    elif name.count(":") == 1:
        name = name.partition(":")[0]
    return name.rstrip(".")
