"""Which znodes are whose (ZkData.defaultAcls); what stores make of it is in tests/conformance."""

from __future__ import annotations

import pytest

from ottla.metadata.node_acls import SECURE_ROOTS, acl_for
from ottla.metadata.store import OPEN_ACL, Acl
from ottla.metadata.znodes import PERSISTENT_PATHS

MINE = Acl(31, "auth", "")
READ = Acl(1, "world", "anyone")


@pytest.mark.parametrize(
    ("path", "acl"),
    [
        ("/consumers", OPEN_ACL),
        ("/brokers/topics/t", (MINE, READ)),
        ("/controller", (MINE, READ)),
        ("/kafka-acl/Topic/t", (MINE, READ)),
        ("/", (MINE, READ)),
        ("/config/users", (MINE,)),
        ("/config/users/alice", (MINE,)),
        ("/config/brokers/0", (MINE,)),
        ("/delegation_token/tokens/x", (MINE,)),
    ],
)
def test_acls(path: str, acl: tuple[Acl, ...]) -> None:
    assert acl_for(path) == acl


def test_every_path_of_kafka_is_closed() -> None:
    roots = {"/" + path.split("/")[1] for path in PERSISTENT_PATHS} - {"/consumers"}
    assert roots <= set(SECURE_ROOTS)
