"""Versions and suites that a context speaks, seen in handshakes in memory."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest

from ottla.config.definitions import ConfigError
from ottla.runtime import SystemDisk
from ottla.security.tls.ciphers import TLS_1_3
from ottla.security.tls.contexts import load_client_context, server_context
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import StoreLoader
from ottla.testing.certificates import Certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def server(authority: Certificates, **more: str) -> ssl.SSLContext:
    given = authority.broker_properties() | {k.replace("_", "."): v for k, v in more.items()}
    settings, loader = TlsSettings.from_properties(given), StoreLoader(SystemDisk())
    keys = loader.key_store(settings.key_store)
    assert keys is not None
    return server_context(settings, keys, loader.trust_store(settings.trust_store))


def client(given: dict[str, str]) -> ssl.SSLContext:
    return load_client_context(TlsSettings.from_properties(given), StoreLoader(SystemDisk()))


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """The server's end; raises SSLError of whichever side refuses."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(back, there, server_hostname=host),
        server.wrap_bio(there, back, server_side=True),
    ]
    waiting = set(ends)
    for _ in range(10):
        for end in ends:
            try:
                end.do_handshake()
                waiting.discard(end)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return ends[1]
    raise AssertionError("the handshake does not end")


@pytest.mark.parametrize(("host"), ["localhost", "127.0.0.1"])
def test_a_client_trusts_the_authority_and_compares_the_host(
    authority: Certificates, host: str
) -> None:
    assert shake_hands(server(authority), client(authority.client_properties()), host)


def test_another_host_is_refused_unless_nobody_compares(authority: Certificates) -> None:
    given = authority.client_properties()
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        shake_hands(server(authority), client(given), "elsewhere")
    lenient = client(given | {"ssl.endpoint.identification.algorithm": ""})
    assert shake_hands(server(authority), lenient, "elsewhere")


def test_a_foreign_authority_is_never_trusted(
    authority: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> None:
    foreign = Certificates(tmp_path_factory.mktemp("foreign"))
    given = foreign.client_properties() | {"ssl.endpoint.identification.algorithm": ""}
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server(authority), client(given), "localhost")
    mutual = server(authority, ssl_client_auth="required")
    given = authority.client_properties(foreign.issue("eve"))
    with pytest.raises(ssl.SSLError):
        shake_hands(mutual, client(given), "localhost")


def test_client_auth(authority: Certificates) -> None:
    own = authority.client_properties(authority.issue("alice"))
    nobody = authority.client_properties()
    for auth, shown in (("none", None), ("requested", True), ("required", True)):
        end = shake_hands(server(authority, ssl_client_auth=auth), client(own), "localhost")
        assert bool(end.getpeercert(binary_form=True)) == bool(shown)
    end = shake_hands(server(authority, ssl_client_auth="requested"), client(nobody), "localhost")
    assert end.getpeercert(binary_form=True) is None
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(server(authority, ssl_client_auth="required"), client(nobody), "localhost")


def test_an_expired_certificate_is_refused(authority: Certificates) -> None:
    old = authority.issue("old", lifetime=timedelta(seconds=-60))
    with pytest.raises(ssl.SSLError, match="expired"):
        shake_hands(
            server(authority, ssl_client_auth="required"),
            client(authority.client_properties(old)),
            "localhost",
        )


def test_a_leaf_in_the_trust_store_is_an_anchor_as_in_java(authority: Certificates) -> None:
    given = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.broker.pem)}
    assert shake_hands(server(authority), client(given), "localhost")


def test_protocols(authority: Certificates) -> None:
    for version in ("TLSv1.2", "TLSv1.3"):
        given = authority.client_properties() | {"ssl.enabled.protocols": version}
        assert shake_hands(server(authority), client(given), "localhost").version() == version
    older = client(authority.client_properties() | {"ssl.enabled.protocols": "TLSv1.2"})
    with pytest.raises(ssl.SSLError):
        shake_hands(server(authority, ssl_enabled_protocols="TLSv1.3"), older, "localhost")


def test_a_suite_by_javas_name_is_the_one_that_is_spoken(authority: Certificates) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    end = shake_hands(
        server(authority, ssl_cipher_suites=suite),
        client(authority.client_properties()),
        "localhost",
    )
    assert end.cipher() == ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLSv1.2", 256)
    modern = server(authority, ssl_cipher_suites=",".join(TLS_1_3))
    end = shake_hands(modern, client(authority.client_properties()), "localhost")
    assert end.version() == "TLSv1.3"


@pytest.mark.parametrize(
    ("suites", "text"),
    [
        ("TLS_KRB5_WITH_RC4_128_MD5", "Unsupported CipherSuite: TLS_KRB5_WITH_RC4_128_MD5"),
        ("TLS_AES_128_GCM_SHA256", "those of TLSv1.3 can be taken all together or not at all"),
    ],
)
def test_suites_that_cannot_be_had_are_refused(
    authority: Certificates, suites: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        server(authority, ssl_cipher_suites=suites)


def test_suites_and_protocols_must_meet(authority: Certificates) -> None:
    with pytest.raises(ConfigError, match=r"has no suite of ssl\.enabled\.protocols: TLSv1\.3"):
        server(
            authority,
            ssl_enabled_protocols="TLSv1.3",
            ssl_cipher_suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        )
