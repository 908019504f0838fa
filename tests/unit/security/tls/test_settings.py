"""What goes together in `ssl.*`; the texts are Kafka's (DefaultSslEngineFactory)."""

from __future__ import annotations

import pytest

from ottla.config.definitions import ConfigError
from ottla.security.tls.settings import TlsSettings


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"ssl.keystore.key": "k"},
            "SSL private key can be specified only for PEM, but key store type is JKS.",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "k"},
            "SSL private key is specified, but certificate chain is not specified.",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "c"},
            "SSL certificate chain is specified, but private key is not specified",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.key": "k", "ssl.keystore.location": "/x",
             "ssl.keystore.certificate.chain": "c"},
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/x",
             "ssl.keystore.password": "p"},
            "SSL key store password cannot be specified with PEM format, only key password may be "
            "specified",
        ),
        (
            {"ssl.keystore.password": "p"},
            "SSL key store is not specified, but key store password is specified.",
        ),
        (
            {"ssl.keystore.location": "/x"},
            "SSL key store is specified, but key store password is not specified.",
        ),
        (
            {"ssl.truststore.certificates": "c"},
            "SSL trust store certs can be specified only for PEM, but trust store type is JKS.",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/x",
             "ssl.truststore.password": "p"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (
            {"ssl.truststore.password": "p"},
            "SSL trust store is not specified, but trust store password is specified.",
        ),
        (
            {"ssl.client.auth": "yes"},
            "Invalid value yes for configuration ssl.client.auth: String must be one of: required, "
            "requested, none",
        ),
        (
            {"ssl.enabled.protocols": "TLSv1.1,TLSv1.2"},
            "ssl.enabled.protocols: TLSv1.1 is not supported; supported: TLSv1.2, TLSv1.3",
        ),
        (
            {"ssl.keystore.type": "BKS"},
            "ssl.keystore.type=BKS is not supported; supported: PEM, PKCS12",
        ),
        (
            {"ssl.engine.factory.class": "com.example.Own"},
            "ssl.engine.factory.class is not supported: TLS is OpenSSL's here, take it out",
        ),
        (
            {"ssl.endpoint.identification.algorithm": "LDAPS"},
            "ssl.endpoint.identification.algorithm=LDAPS is not supported; it is https, or empty "
            "for no check of the host's name",
        ),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TlsSettings.from_properties(given)
    assert str(refused.value) == text


def test_defaults_are_kafkas() -> None:
    settings = TlsSettings.from_properties({})
    assert (settings.protocols, settings.client_auth) == (("TLSv1.2", "TLSv1.3"), "none")
    assert settings.checks_host and settings.principal_rules == "DEFAULT"
    assert not TlsSettings.from_properties(
        {"ssl.endpoint.identification.algorithm": ""}
    ).checks_host


def test_secrets_are_in_no_text_of_the_settings() -> None:
    secret = "hush-hush"
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.key": secret, "ssl.key.password": secret}
    settings = TlsSettings.from_properties(pem | {"ssl.keystore.certificate.chain": secret})
    assert secret not in repr(settings) + str(settings)
