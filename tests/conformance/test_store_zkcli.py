"""ZooKeeper's own command line works on our server."""

from __future__ import annotations

import asyncio

import pytest

from ottla.runtime import system_runtime
from ottla.testing import java
from ottla.zk.server.options import StoreOptions
from ottla.zk.server.server import ZooKeeperServer
from tests.support.judges import need

pytestmark = pytest.mark.peers

SHELL = "org.apache.zookeeper.ZooKeeperMain"


@pytest.fixture
async def server(tmp_path):
    need(java.missing_reason("zookeeper-3.8"))
    options = StoreOptions(extended_types=True, super_digest="super:lK75jTNcA+U9vtVEw5vB51mj/w4=")
    made = ZooKeeperServer(system_runtime(), tmp_path, options=options)
    await made.start()
    yield made
    await made.stop()


async def test_zkcli_creates_reads_changes_and_deletes(server):
    commands = (
        "create /a hello",
        "create -s /a/n- x",
        "create -e /eph y",
        "create -c /box",
        "get -s /a",
        "set -v 0 /a world",
        "set -v 0 /a late",
        "get /a",
        "ls -R /a",
        "getAllChildrenNumber /a",
        "getAcl /a",
        "addauth digest u:p",
        "create /mine z auth::cdrwa",
        "getAcl /mine",
        "create /closed z digest:v:x:r",
        "get /closed",
        "create -t 60000 /mortal z",
        "create -s -t 60000 /mortal- z",
        "create -t 0 /never z",
        "addauth digest super:secret",
        "set /closed opened",
        "get /closed",
        "delete /a",
        "deleteall /a",
        "ls /",
        "whoami",
        "quit",
    )
    result = await asyncio.to_thread(
        java.run_tool,
        "zookeeper-3.8",
        SHELL,
        "-server",
        f"127.0.0.1:{server.port}",
        stdin="\n".join(commands) + "\n",
    )
    said = result.stdout + result.stderr
    for expected in (
        "Created /a\n",
        "Created /a/n-0000000000\n",
        "Created /eph\n",
        "Created /box\n",
        "hello\n",
        "cversion = 1\n",
        "numChildren = 1\n",
        "version No is not valid : /a\n",
        "world\n",
        "/a/n-0000000000\n",
        "'world,'anyone\n",
        "'digest,'u:",
        "Node not empty: /a\n",
        "[box, closed, eph, mine, mortal, mortal-0000000006, zookeeper]\n",
        "Insufficient permission : /closed\n",
        "Created /mortal\n",
        "opened\n",
        "digest: u\n",
        "super: \n",
    ):
        assert expected in said, said
    assert "late" not in said.replace("set -v 0 /a late", "")
    assert server.engine.tree.ephemerals == {}
