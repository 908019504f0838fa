"""Key stores of both kinds, and files that are something else: words, never a traceback."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from ottla.config.definitions import ConfigError
from ottla.runtime import SystemDisk
from ottla.security.tls.contexts import load_client_context
from ottla.security.tls.keys import KeyStore
from ottla.security.tls.settings import TlsSettings
from ottla.security.tls.stores import StoreLoader
from ottla.testing.certificates import PASSWORD, Certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def load_keys(properties: dict[str, str]) -> KeyStore:
    keys = StoreLoader(SystemDisk()).key_store(TlsSettings.from_properties(properties).key_store)
    assert keys is not None
    return keys


def refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        load_client_context(TlsSettings.from_properties(properties), StoreLoader(SystemDisk()))
    assert "\n" not in str(refused.value) and PASSWORD not in str(refused.value)
    return str(refused.value)


def encrypted(authority: Certificates, target: Path, password: str) -> Path:
    pem = authority.broker.pem.read_bytes()
    key = serialization.load_pem_private_key(pem, None)
    target.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password.encode()),
        )
        + pem[pem.index(b"-----BEGIN CERT") :]
    )
    return target


def test_pem_and_pkcs12_hold_the_same(authority: Certificates) -> None:
    pem = load_keys(authority.broker.properties("PEM"))
    p12 = load_keys(authority.broker.properties("PKCS12"))
    assert pem.chain[0] == p12.chain[0]
    loader = StoreLoader(SystemDisk())
    trusted = [
        loader.trust_store(
            TlsSettings.from_properties(authority.trust_properties(kind)).trust_store
        )
        for kind in ("PEM", "PKCS12")
    ]
    assert trusted[0] == trusted[1] is not None


def test_a_pkcs12_file_may_be_called_jks_as_in_java(authority: Certificates) -> None:
    properties = authority.broker.properties("PKCS12")
    del properties["ssl.keystore.type"]  # JKS is Kafka's default
    assert load_keys(properties).chain


def test_pem_text_in_a_property_may_be_one_line(authority: Certificates) -> None:
    text = authority.broker.pem.read_text().replace("\n", " ")
    cut = text.index("-----BEGIN CERT")
    given = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": text[:cut],
        "ssl.keystore.certificate.chain": text[cut:],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority.ca_pem.read_text().replace("\n", " "),
    }
    assert load_client_context(TlsSettings.from_properties(given), StoreLoader(SystemDisk()))


def test_an_encrypted_key_needs_its_password(authority: Certificates, tmp_path: Path) -> None:
    file = encrypted(authority, tmp_path / "enc.pem", "key-secret")
    given = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}
    settings = TlsSettings.from_properties(given | {"ssl.key.password": "key-secret"})
    assert load_client_context(settings, StoreLoader(SystemDisk()))
    assert "ssl.key.password is not specified" in refusal(given)
    told = refusal(given | {"ssl.key.password": "guess"})
    assert "wrong ssl.key.password" in told and "guess" not in told


def test_a_wrong_password_of_pkcs12_is_said(authority: Certificates) -> None:
    given = authority.broker.properties("PKCS12") | {"ssl.keystore.password": "guess"}
    told = refusal(given)
    assert told.endswith("of type PKCS12: keystore password was incorrect")


def test_jks_is_refused_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "old.jks"
    file.write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    told = refusal({"ssl.keystore.location": str(file), "ssl.keystore.password": "x"})
    assert "this is a JKS key store, which is not supported; PKCS12 and PEM are: keytool" in told
    told = refusal({"ssl.truststore.location": str(file), "ssl.truststore.password": "x"})
    assert "ssl.truststore.type=PKCS12" in told


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("PKCS12", b"hello", "this is not a PKCS12 file"),
        ("PKCS12", b"", "this is not a PKCS12 file"),
        ("PKCS12", b"\x30\x82\x00\x01\x00", "it cannot be read as PKCS12"),
        ("PKCS12", b"-----BEGIN CERTIFICATE-----", "this is a PEM file: set ssl.keystore.type=PEM"),
        ("PEM", b"hello", "No matching PRIVATE KEY entries in PEM file"),
        ("PEM", b"-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----",
         "No matching CERTIFICATE entries in PEM file"),
        ("PEM", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n"
                b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----",
         "Invalid PEM keystore configs"),
        ("PEM", b"-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n" * 2,
         "Expected one private key, but found 2"),
    ],
)  # fmt: skip
def test_other_files_are_refused_in_words(
    tmp_path: Path, kind: str, content: bytes, reason: str
) -> None:
    file = tmp_path / "store"
    file.write_bytes(content)
    given = {"ssl.keystore.type": kind, "ssl.keystore.location": str(file)}
    assert reason in refusal(given | ({"ssl.keystore.password": "x"} if kind != "PEM" else {}))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    told = refusal({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "no")})
    assert told.endswith("of type PEM: No such file or directory")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/tmp"])
def test_what_is_no_file_is_not_read(path: str) -> None:
    told = refusal({"ssl.truststore.type": "PEM", "ssl.truststore.location": path})
    assert told.endswith("of type PEM: it is not a regular file")


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    told = refusal({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(pipe)})
    assert told.endswith("it is not a regular file")


def test_a_key_of_somebody_else_is_refused(authority: Certificates, tmp_path: Path) -> None:
    own, other = (issued.pem.read_text() for issued in (authority.broker, authority.issue("x")))
    file = tmp_path / "mixed.pem"
    cut = "-----BEGIN CERT"
    file.write_text(own[: own.index(cut)] + other[other.index(cut) :])
    told = refusal({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)})
    assert "not the certificate's key" in told


def test_keytool_made_it(authority: Certificates, tmp_path: Path) -> None:
    """A store with Java's own tool: its trust stores have an attribute of their own."""
    import shutil

    if shutil.which("keytool") is None:
        pytest.skip("keytool is missing: it comes with a JDK")
    target = tmp_path / "trust.p12"
    subprocess.run(
        ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(authority.ca_pem),
         "-keystore", str(target), "-storetype", "PKCS12", "-storepass", PASSWORD],
        check=True, capture_output=True,
    )  # fmt: skip
    given = {"ssl.truststore.location": str(target), "ssl.truststore.password": PASSWORD}
    store = TlsSettings.from_properties(given).trust_store
    assert StoreLoader(SystemDisk()).trust_store(store) == StoreLoader(SystemDisk()).trust_store(
        TlsSettings.from_properties(authority.trust_properties()).trust_store
    )


def test_a_file_that_was_written_again_is_noticed(authority: Certificates, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(authority.ca_pem.read_bytes())
    loader = StoreLoader(SystemDisk())
    given = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}
    loader.trust_store(TlsSettings.from_properties(given).trust_store)
    assert not loader.modified()
    SystemDisk().set_mtime_ms(file, SystemDisk().mtime_ms(file) + 5000)
    assert loader.modified()
    file.unlink()
    assert not loader.modified()  # gone is not new
