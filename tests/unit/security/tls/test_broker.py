"""Certificates of a broker's listeners: which properties hold, and what may take their place."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.runtime import SystemDisk, SystemNetwork
from ottla.security.tls.broker import BrokerTls, listener_properties
from ottla.security.tls.names import subject_name
from ottla.security.tls.network import TlsNetwork
from ottla.testing.certificates import BROKER_HOSTS, Certificates, Issued

BASE = {
    "zookeeper.connect": "127.0.0.1:1",
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0,USERS://127.0.0.1:0,OPEN://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:SSL,OUTSIDE:SSL,USERS:SASL_SSL,OPEN:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
}
LOCATION = "listener.name.outside.ssl.keystore.location"


@pytest.fixture
def authority(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "tls")


def config(given: dict[str, str], dynamic: dict[str, str] | None = None) -> BrokerConfig:
    return BrokerConfig.from_properties(BASE | given).with_dynamic({}, dynamic or {})


def shown(tls: BrokerTls, listener: str) -> bytes:
    keys = tls.endpoint(listener).tls.keys
    assert keys is not None
    return keys.chain[0]


def renewed(authority: Certificates, file: str = "renewed") -> Issued:
    return authority.issue("broker", BROKER_HOSTS, file=file)


def test_a_listeners_own_properties_win(authority: Certificates) -> None:
    own = authority.issue("outside", BROKER_HOSTS)
    tls = BrokerTls(config(authority.broker_properties() | {LOCATION: str(own.pem)}), SystemDisk())
    assert subject_name(shown(tls, "INSIDE")) == "CN=broker"
    assert subject_name(shown(tls, "OUTSIDE")) == "CN=outside"


def test_client_auth_of_sasl_listeners_is_their_own_matter(authority: Certificates) -> None:
    """KIP-684: the bare config is for SSL listeners."""
    given = authority.broker_properties() | {"ssl.client.auth": "required"}
    auth = {
        name: listener_properties(config(given), name)["ssl.client.auth"]
        for name in ("OUTSIDE", "USERS")
    }
    assert auth == {"OUTSIDE": "required", "USERS": "none"}
    given |= {"listener.name.users.ssl.client.auth": "requested"}
    assert listener_properties(config(given), "USERS")["ssl.client.auth"] == "requested"


def test_the_certificate_names_the_principal_on_ssl_listeners_only(
    authority: Certificates,
) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    tls = BrokerTls(config(authority.broker_properties() | rules), SystemDisk())
    certificate = shown(tls, "INSIDE")
    assert tls.endpoint("OUTSIDE").tls.principal(certificate) == "User:BROKER"
    assert tls.endpoint("OUTSIDE").tls.principal(None) is None
    assert tls.endpoint("USERS").tls.principal(certificate) is None


def test_a_listener_without_a_certificate_is_refused(authority: Certificates) -> None:
    with pytest.raises(
        ConfigError, match=r"Listener INSIDE needs a certificate: set ssl\.keystore"
    ):
        BrokerTls(config({}), SystemDisk())


def test_brokers_that_would_not_trust_each_other_are_refused(
    authority: Certificates, tmp_path: Path
) -> None:
    foreign = Certificates(tmp_path / "foreign")
    given = authority.broker.properties() | foreign.trust_properties()
    with pytest.raises(ConfigError, match="A client SSLEngine created with the provided settings"):
        BrokerTls(config(given), SystemDisk())
    # On other listeners a broker need not trust its own certificate.
    outside = {f"listener.name.outside.{k}": v for k, v in foreign.trust_properties().items()}
    BrokerTls(config(authority.broker_properties() | outside), SystemDisk())


def test_connections_to_other_brokers_follow_their_listener(authority: Certificates) -> None:
    tls = BrokerTls(config(authority.broker_properties()), SystemDisk())
    network = SystemNetwork()
    assert isinstance(tls.network(network, "INSIDE"), TlsNetwork)
    assert tls.network(network, "OPEN") is network


def test_a_new_location_is_taken_over(authority: Certificates) -> None:
    given = authority.broker_properties()
    tls = BrokerTls(config(given), SystemDisk())
    before, inside = shown(tls, "OUTSIDE"), shown(tls, "INSIDE")
    context = tls.endpoint("OUTSIDE").server_context
    changed = config(given, {LOCATION: str(renewed(authority).pem)})
    tls.check_change(changed)
    assert shown(tls, "OUTSIDE") == before  # only looked at
    tls.reconfigure(changed)
    assert shown(tls, "OUTSIDE") != before
    assert tls.endpoint("OUTSIDE").server_context is not context
    assert shown(tls, "INSIDE") == inside


def test_a_written_file_is_read_again_when_configs_are_altered(authority: Certificates) -> None:
    tls = BrokerTls(config(authority.broker_properties()), SystemDisk())
    before = shown(tls, "INSIDE")
    tls.reload_files()
    assert shown(tls, "INSIDE") == before
    disk, path = SystemDisk(), authority.broker.pem
    path.write_bytes(renewed(authority).pem.read_bytes())
    disk.set_mtime_ms(path, disk.mtime_ms(path) + 5000)
    tls.reload_files()
    assert shown(tls, "INSIDE") != before


def test_other_names_are_refused_in_kafkas_words(authority: Certificates) -> None:
    given = authority.broker_properties()
    tls = BrokerTls(config(given), SystemDisk())
    other = authority.issue("other", BROKER_HOSTS)
    with pytest.raises(ConfigError) as refused:
        tls.check_change(config(given, {LOCATION: str(other.pem)}))
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: "
        "org.apache.kafka.common.config.ConfigException: "
        "Keystore DistinguishedName does not match:  "
        "existing={alias=kafka, DN=CN=broker}, new={alias=kafka, DN=CN=other}"
    )
    fewer = authority.issue("broker", BROKER_HOSTS[:1], file="fewer")
    with pytest.raises(ConfigError, match=r"SAN=\[\[2, localhost\], \[7, 127\.0\.0\.1\]\]"):
        tls.check_change(config(given, {LOCATION: str(fewer.pem)}))


def test_what_cannot_be_used_leaves_the_old_certificates(
    authority: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    given = authority.broker_properties()
    tls = BrokerTls(config(given), SystemDisk())
    before = shown(tls, "OUTSIDE")
    tls.reconfigure(config(given, {LOCATION: "/nowhere/at.pem"}))
    assert shown(tls, "OUTSIDE") == before
    assert "the TLS settings of listener OUTSIDE stay" in caplog.text
    assert "No such file or directory" in caplog.text


def test_between_brokers_new_and_old_must_trust_each_other(
    authority: Certificates, tmp_path: Path
) -> None:
    given = authority.broker_properties()
    tls = BrokerTls(config(given), SystemDisk())
    foreign = Certificates(tmp_path / "foreign")
    changed = config(given, {"listener.name.inside.ssl.keystore.location": str(foreign.broker.pem)})
    with pytest.raises(ConfigError, match="can't connect to a server SSLEngine"):
        tls.check_change(changed)


def test_what_is_no_store_waits_for_a_start(authority: Certificates) -> None:
    given = authority.broker_properties()
    tls = BrokerTls(config(given), SystemDisk())
    tls.reconfigure(config(given, {"listener.name.outside.ssl.client.auth": "required"}))
    assert tls.endpoint("OUTSIDE").tls.settings.client_auth == "none"
    again = BrokerTls(
        config(given, {"listener.name.outside.ssl.client.auth": "required"}), SystemDisk()
    )
    assert again.endpoint("OUTSIDE").tls.settings.client_auth == "required"
