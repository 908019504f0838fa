"""Connection strings."""

from __future__ import annotations

import pytest

from ottla.zk.client import hosts
from ottla.zk.client.hosts import BadConnectString


def test_connect_strings():
    assert hosts.parse("a:1,b/x/y") == ([("a", 1), ("b", 2181)], "/x/y")
    assert hosts.parse("[::1]:2182, c:3/") == ([("::1", 2182), ("c", 3)], "")
    assert hosts.parse("[::1]") == ([("::1", 2181)], "")
    for bad in ("", "/x", "a:b", "a:0", "a:70000", ":1", "a:1//x", "a:1/../x"):
        with pytest.raises(BadConnectString):
            hosts.parse(bad)
