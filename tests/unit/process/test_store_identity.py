"""Who a broker is on the store."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.process.data_folder import digest_path
from ottla.process.store_identity import prepare, store_credentials
from ottla.process.up_options import UpOptions, broker_properties
from ottla.zk.credentials import read_digest

AUTHORIZER = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}


def config(**properties: str) -> BrokerConfig:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return BrokerConfig.from_properties({"zookeeper.connect": "x:1"} | given)


def test_acls_need_an_identity(tmp_path: Path) -> None:
    assert store_credentials(config()) == []
    with pytest.raises(ConfigError, match="has no identity on the store"):
        store_credentials(config(zookeeper_set_acl="true"))
    file = tmp_path / "digest"
    file.write_text("a:b")
    file.chmod(0o600)
    assert store_credentials(config(ottla_zookeeper_digest_file=str(file))) == [("digest", b"a:b")]


def test_an_open_store_beside_an_authoriser_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store_credentials(BrokerConfig.from_properties({"zookeeper.connect": "x:1"} | AUTHORIZER))
    assert "whoever reaches the store can change everything there" in caplog.text


def test_a_cluster_draws_its_secret_once(tmp_path: Path) -> None:
    prepare(UpOptions(data=tmp_path))
    path = digest_path(tmp_path)
    assert not path.exists()
    options = UpOptions(data=tmp_path, overrides=AUTHORIZER)
    prepare(options)
    drawn = read_digest(path)
    assert drawn.startswith(b"ottla:") and len(drawn) > 40
    prepare(options)
    assert read_digest(path) == drawn
    started = BrokerConfig.from_properties(broker_properties(options, 0))
    assert store_credentials(started) == [("digest", drawn)]
