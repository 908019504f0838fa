"""What the engine keeps on disk beside the journal, and what nodes share."""

from __future__ import annotations

import os
import stat

from ottla.metadata.store import Acl
from ottla.runtime import system_runtime
from ottla.zk.embedded import EmbeddedStore
from ottla.zk.server.engine import Engine


async def test_the_secret_of_passwords_is_for_its_owner_alone(tmp_path):
    """Whoever reads it can take over any session."""
    aim = tmp_path / "elsewhere"
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "secret.tmp").symlink_to(aim)
    before = os.umask(0)
    try:
        engine = Engine(system_runtime(), tmp_path / "store")
        await engine.start()
        await engine.stop()
    finally:
        os.umask(before)
    secret = tmp_path / "store" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert len(secret.read_bytes()) == 32
    assert not aim.exists(), "a link in its way is not followed"


async def test_equal_acls_are_kept_once_before_and_after_a_restart(tmp_path):
    engine = Engine(system_runtime(), tmp_path)
    await engine.start()
    store = EmbeddedStore(engine)
    for number in range(3):
        acl = (Acl(31, "ip", "127.0.0.1"), Acl(1, "digest", "a:" + "b" * 28))
        await store.create(f"/{number}", acl=acl)
    assert len({id(engine.tree.nodes[f"/{n}"].acl) for n in range(3)}) == 1
    await engine.stop()
    again = Engine(system_runtime(), tmp_path)
    await again.start()
    assert len({id(again.tree.nodes[f"/{n}"].acl) for n in range(3)}) == 1
    assert again.tree.nodes["/0"].acl == acl
    await again.stop()
