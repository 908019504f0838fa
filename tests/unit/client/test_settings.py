"""Property files of the admin client, and the user they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.client import Admin
from ottla.client.settings import AdminConfig
from ottla.config.definitions import ConfigError
from ottla.errors import KafkaError
from ottla.runtime import system_runtime
from ottla.security.sasl.plain import PlainCredentials
from ottla.wire import messages as m
from tests.support.client.fake_kafka import RANGES, FakeKafka

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="ann" password="s3\\"c ret";'
)
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": JAAS,
}


def test_settings_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id=me\ndefault.api.timeout.ms=70\nretries=3\nbootstrap.servers=x:1\n")
    assert AdminConfig.from_file(path) == AdminConfig(client_id="me", timeout_ms=70)
    with pytest.raises(FileNotFoundError):
        AdminConfig.from_file(tmp_path / "none")


def test_a_user() -> None:
    found = AdminConfig.from_properties(SASL).credentials
    assert found == PlainCredentials("ann", 's3"c ret')


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"default.api.timeout.ms": "x"}, "Not a number of type INT"),
        ({"default.api.timeout.ms": "-1"}, "Value must be at least 0"),
        ({"security.protocol": "TLS"}, "Invalid value TLS for configuration security.protocol"),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/x"},
            "SSL key store is specified, but key store password is not specified.",
        ),
        ({"security.protocol": "SASL_PLAINTEXT"}, "Invalid value GSSAPI for configuration"),
        (SASL | {"sasl.mechanism": "OTHER"}, "String must be one of: PLAIN, SCRAM-SHA-256"),
        (SASL | {"sasl.mechanism": "SCRAM-SHA-256"}, "must name org.*ScramLoginModule"),
        (SASL | {"sasl.jaas.config": 'x required username="a";'}, "must name org.*PlainLogin"),
        (SASL | {"sasl.jaas.config": 'x.PlainLoginModule required username="a";'}, "username="),
    ],
)
def test_what_cannot_be_used_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        AdminConfig.from_properties(given)


def test_protocols_with_ssl_bring_settings_of_tls() -> None:
    assert AdminConfig.from_properties({"ssl.truststore.type": "PEM"}).tls is None
    tls = AdminConfig.from_properties({"security.protocol": "ssl"}).tls
    assert tls is not None and tls.checks_host
    both = AdminConfig.from_properties(SASL | {"security.protocol": "SASL_SSL"})
    assert both.tls is not None and both.credentials is not None


async def test_the_user_is_named_on_every_connection() -> None:
    kafka = await FakeKafka(1, RANGES | {17: (0, 1), 36: (0, 2)}).start()
    told: list[Any] = []
    kafka.on(m.SaslHandshakeRequest, lambda _: m.SaslHandshakeResponse(mechanisms=["PLAIN"]))

    def check(request: Any) -> m.SaslAuthenticateResponse:
        told.append(request.auth_bytes)
        if request.auth_bytes == b"\0ann\0secret":
            return m.SaslAuthenticateResponse()
        return m.SaslAuthenticateResponse(error_code=58, error_message="Authentication failed: no")

    kafka.on(m.SaslAuthenticateRequest, check)

    async def list_as(password: str) -> None:
        user = PlainCredentials("ann", password)
        async with Admin.connect(
            system_runtime(), kafka.address, timeout_ms=2000, credentials=user
        ) as admin:
            await admin.list_topics()

    await list_as("secret")
    with pytest.raises(KafkaError, match="Authentication failed: no"):
        await list_as("guess")
    assert told == [b"\0ann\0secret", b"\0ann\0guess"]
    await kafka.stop()
