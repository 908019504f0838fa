"""The super user's digest, as it is read from a file or the environment."""

from __future__ import annotations

import pytest

from ottla.zk.server.acl import proved_by
from ottla.zk.server.options import BadSuperDigest, parse_super_digest


def test_a_digest_is_taken_as_apache_prints_it():
    # `java … DigestAuthenticationProvider super:secret` of ZooKeeper 3.8.4 says this.
    printed = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
    assert parse_super_digest(f" {printed}\n") == printed
    assert [identity.scheme for identity in proved_by(b"super:secret", printed)] == [
        "super",
        "digest",
    ]
    assert [identity.scheme for identity in proved_by(b"super:Secret", printed)] == ["digest"]
    assert [identity.scheme for identity in proved_by(b"super:secret", None)] == ["digest"]


@pytest.mark.parametrize(
    "text", ["", "super", "super:", "super:secret", ":" + "A" * 27 + "=", "super:AAAA", "super:ä="]
)
def test_what_is_no_digest_is_refused_and_not_repeated(text):
    with pytest.raises(BadSuperDigest) as refused:
        parse_super_digest(text)
    assert "secret" not in str(refused.value)
