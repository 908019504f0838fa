"""What `ottla up` was asked for becomes the brokers' properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.process.up_options import UpOptions, broker_properties


def test_folders_in_config_files_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is started again from elsewhere must find its logs."""
    monkeypatch.chdir(tmp_path)
    options = UpOptions(data=Path("data"))
    assert broker_properties(options, 0)["log.dirs"] == f"{tmp_path}/data/broker-0"
    options = UpOptions(overrides={"log.dirs": "a, /b,,c/d"})
    given = broker_properties(options, 0)["log.dirs"]
    assert given == f"{tmp_path}/a,/b,{tmp_path}/c/d"


def test_everything_is_on_the_loopback_interface_unless_told() -> None:
    options = UpOptions(brokers=2)
    assert options.bootstrap_servers == "127.0.0.1:9092,127.0.0.1:9093"
    assert options.zookeeper_connect == options.advertised_zookeeper == "127.0.0.1:2181"


def test_another_machine_is_told_a_name() -> None:
    """Brokers listen everywhere, clients hear the name, and the store is reached from here."""
    options = UpOptions(brokers=2, host="0.0.0.0", advertise="box.lan")
    config = BrokerConfig.from_properties(broker_properties(options, 1))
    assert [str(endpoint) for endpoint in config.listeners] == ["PLAINTEXT://0.0.0.0:9093"]
    assert [str(e) for e in config.advertised_listeners] == ["PLAINTEXT://box.lan:9093"]
    assert config.zookeeper_connect == "127.0.0.1:2181"
    assert options.bootstrap_servers == "box.lan:9092,box.lan:9093"
    assert options.advertised_zookeeper == "box.lan:2181"


def test_addresses_of_the_sixth_version_stand_in_brackets() -> None:
    options = UpOptions(host="::1")
    [listener] = BrokerConfig.from_properties(broker_properties(options, 0)).listeners
    assert (listener.host, listener.port) == ("::1", 9092)
    assert options.bootstrap_servers == "[::1]:9092"
    assert UpOptions(host="::", advertise="a").zookeeper_connect == "[::1]:2181"


def test_brokers_that_authorise_own_their_store(tmp_path: Path) -> None:
    keys = ("zookeeper.set.acl", "ottla.zookeeper.digest.file")
    authorizer = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}

    def given(overrides: dict[str, str], **others: bool) -> list[str | None]:
        options = UpOptions(data=tmp_path, overrides=overrides, **others)  # type: ignore[arg-type]
        properties = broker_properties(options, 0)
        return [properties.get(key) for key in keys]

    closed = ["true", f"{tmp_path}/config/store.digest"]
    assert given({}) == [None, None]
    assert given(authorizer) == given({}, is_store_closed=True) == closed
    # Whoever has an opinion about it keeps it.
    assert given(authorizer | {keys[0]: "false"}, is_store_closed=True) == ["false", None]
    assert given(authorizer | {keys[1]: "mine"}) == [None, "mine"]
