"""What the broker's properties say of listeners and of the authoriser."""

from __future__ import annotations

import pytest

from ottla.config.broker import BrokerConfig
from ottla.config.definitions import ConfigError
from ottla.security.authorizer import authorizer_settings
from ottla.security.listeners import broker_credentials, check_security, sasl_settings
from ottla.security.sasl.plain import PlainCredentials
from ottla.security.sasl.scram_client import ScramCredentials

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
BASE = {
    "zookeeper.connect": "z:2181",
    "broker.id": "0",
    "listeners": "PLAINTEXT://h:1,ONE://h:2,TWO://h:3",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ONE:SASL_PLAINTEXT,TWO:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'{MODULE} required user_all="x";',
}
ONE = "listener.name.one.plain.sasl.jaas.config"


def config(**changes: str) -> BrokerConfig:
    return BrokerConfig.from_properties(BASE | changes)


def test_a_listeners_own_accounts_win() -> None:
    own = config(**{ONE: f'{MODULE} required user_one="y" user_="z";'})
    one, two = sasl_settings(own, "ONE"), sasl_settings(own, "TWO")
    assert one is not None and one.plain_users == {"one": "y", "": "z"}
    assert two is not None and two.plain_users == {"all": "x"}
    assert sasl_settings(own, "PLAINTEXT") is None


def test_mechanisms_per_listener() -> None:
    own = config(
        **{
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.one.sasl.enabled.mechanisms": "PLAIN",
        }
    )
    one = sasl_settings(own, "ONE")
    assert one is not None and one.mechanisms == ("PLAIN",)
    with pytest.raises(ConfigError, match="Listener TWO enables SASL mechanisms GSSAPI"):
        sasl_settings(own, "TWO")


def test_credentials_between_brokers() -> None:
    among = {
        "inter.broker.listener.name": "ONE",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    own = config(**among, **{ONE: f'{MODULE} required username="b" password="p" user_b="p";'})
    assert broker_credentials(own, "ONE") == PlainCredentials("b", "p")
    assert broker_credentials(own, "PLAINTEXT") is None
    check_security(own)
    with pytest.raises(ConfigError, match="no username and password"):
        check_security(config(**among))


def test_accounts_must_be_somewhere() -> None:
    without = {k: v for k, v in BASE.items() if k != "plain.sasl.jaas.config"}
    with pytest.raises(ConfigError, match=r"Could not find a 'KafkaServer' or 'one\.KafkaServer'"):
        sasl_settings(BrokerConfig.from_properties(without), "ONE")


def test_another_login_module() -> None:
    with pytest.raises(ConfigError, match="must name org"):
        sasl_settings(config(**{ONE: "com.example.Login required;"}), "ONE")


def test_accounts_are_not_described() -> None:
    described = {entry.name: entry for entry in config(**{ONE: "secret"}).describe()}
    for name in (ONE, "plain.sasl.jaas.config"):
        assert described[name].value is None
        assert described[name].is_sensitive


def test_authorizer_settings() -> None:
    kafka = "kafka.security.authorizer.AclAuthorizer"
    assert authorizer_settings({}) is None
    given = {
        "authorizer.class.name": kafka,
        "super.users": " User:a ; User:CN=b,O=c;; ",
        "allow.everyone.if.no.acl.found": "TRUE",
    }
    settings = authorizer_settings(given)
    assert settings is not None
    assert settings.super_users == {"User:a", "User:CN=b,O=c"}
    assert settings.allow_everyone_if_no_acl_found
    with pytest.raises(ConfigError, match="url is not supported"):
        authorizer_settings(given | {"authorizer.zookeeper.url": "z:1"})


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SEVERAL = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256, PLAIN,SCRAM-SHA-512,PLAIN",
    "scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
}


def test_several_mechanisms_at_once() -> None:
    one = sasl_settings(config(**SEVERAL), "ONE")
    assert one is not None
    assert one.mechanisms == ("SCRAM-SHA-256", "PLAIN", "SCRAM-SHA-512")
    assert one.plain_users == {"all": "x"}
    without_plain = sasl_settings(
        config(**SEVERAL | {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}), "ONE"
    )
    assert without_plain is not None and without_plain.plain_users == {}


def test_every_mechanism_has_its_module() -> None:
    wrong = SEVERAL | {"listener.name.one.scram-sha-256.sasl.jaas.config": f"{MODULE} required;"}
    with pytest.raises(ConfigError, match="ScramLoginModule"):
        sasl_settings(config(**wrong), "ONE")
    assert sasl_settings(config(**wrong), "TWO") is not None


def test_brokers_that_show_themselves_by_scram() -> None:
    among = SEVERAL | {
        "inter.broker.listener.name": "ONE",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.one.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} required username="b" password="p";'
        ),
    }
    shown = broker_credentials(config(**among), "ONE")
    assert shown == ScramCredentials("SCRAM-SHA-512", "b", "p")
    check_security(config(**among))


def test_the_nearest_end_of_sessions_counts() -> None:
    ends = {
        "connections.max.reauth.ms": "1000",
        "listener.name.one.connections.max.reauth.ms": "2000",
        "listener.name.one.plain.connections.max.reauth.ms": "3000",
    }
    one, two = (sasl_settings(config(**SEVERAL, **ends), name) for name in ("ONE", "TWO"))
    assert one is not None and two is not None
    assert one.max_reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 2000}
    assert set(two.max_reauth_ms.values()) == {1000}
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        sasl_settings(config(**{"listener.name.one.connections.max.reauth.ms": "soon"}), "ONE")
