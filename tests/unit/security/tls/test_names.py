"""Names out of certificates: Java's text, letter by letter, and bytes that are no certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from ottla.security.tls.names import BadCertificate, alternative_names, subject_name
from ottla.testing.certificates import Certificates


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


def der(path: Path) -> bytes:
    text = path.read_text()
    return ssl.PEM_cert_to_DER_cert(text[text.index("-----BEGIN CERTIFICATE") :])


def attribute(oid: x509.ObjectIdentifier, value: str) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value)


# The right column is what X500Principal.getName() of OpenJDK 17 says; `test_tls_java.py` asks it.
NAMES = [
    ([attribute(NameOID.COMMON_NAME, "alice")], "CN=alice"),
    (
        [
            attribute(NameOID.COUNTRY_NAME, "DE"),
            attribute(NameOID.ORGANIZATION_NAME, 'Müller, Söhne + "Co"'),
            attribute(NameOID.COMMON_NAME, "a<b>;#=\\c"),
        ],
        'CN=a\\<b\\>\\;\\#\\=\\\\c,O=Müller\\, Söhne \\+ \\"Co\\",C=DE',
    ),
    ([attribute(NameOID.COMMON_NAME, "  two ")], "CN=\\ \\ two\\ "),
    (
        [
            attribute(NameOID.COMMON_NAME, "c"),
            attribute(NameOID.EMAIL_ADDRESS, "c@example.org"),
        ],
        "1.2.840.113549.1.9.1=#160d63406578616d706c652e6f7267,CN=c",
    ),
    (
        [
            attribute(NameOID.DOMAIN_COMPONENT, "org"),
            attribute(NameOID.STREET_ADDRESS, "Main St"),
            attribute(NameOID.USER_ID, "u1"),
            attribute(NameOID.SERIAL_NUMBER, "77"),
        ],
        "2.5.4.5=#13023737,UID=u1,STREET=Main St,DC=org",
    ),
]


@pytest.mark.parametrize(("parts", "text"), NAMES)
def test_a_subject_is_written_as_java_writes_it(
    authority: Certificates, parts: list[x509.NameAttribute[str]], text: str
) -> None:
    assert subject_name(der(authority.issue(x509.Name(parts)).pem)) == text


def test_attributes_that_belong_together_are_joined(authority: Certificates) -> None:
    name = x509.Name(
        [
            x509.RelativeDistinguishedName(
                [attribute(NameOID.COMMON_NAME, "a"), attribute(NameOID.USER_ID, "b")]
            )
        ]
    )
    # DER sorts the members of a set by their bytes.
    assert subject_name(der(authority.issue(name).pem)) in ("CN=a+UID=b", "UID=b+CN=a")


def test_other_values_than_text_are_shown_as_bytes(authority: Certificates) -> None:
    bits = x509.NameAttribute(
        NameOID.X500_UNIQUE_IDENTIFIER, b"\x01\x02", _type=_ASN1Type.BitString
    )
    name = x509.Name([attribute(NameOID.COMMON_NAME, "x"), bits])
    assert subject_name(der(authority.issue(name).pem)) == "2.5.4.45=#03020102,CN=x"


def test_alternative_names_have_javas_numbers(authority: Certificates) -> None:
    issued = authority.issue("hosts", ["localhost", "127.0.0.1", "::1"], file="hosts")
    found = sorted(map(str, alternative_names(der(issued.pem))))
    assert found == ["[2, localhost]", "[7, 127.0.0.1]", "[7, ::1]"]
    assert alternative_names(der(authority.issue("nobody").pem)) == frozenset()


def test_a_certificate_that_names_nobody_is_refused_as_java_refuses_it(
    authority: Certificates,
) -> None:
    with pytest.raises(BadCertificate, match="its subject is empty"):
        subject_name(der(authority.issue(x509.Name([])).pem))
    named = authority.issue(x509.Name([]), ["localhost"])
    assert subject_name(der(named.pem)) == ""


@pytest.mark.parametrize(
    "data", [b"", b"\x30", b"\x30\x82", b"\x30\x84\xff\xff\xff\xff", b"\x02\x00"]
)
def test_bytes_that_are_no_certificate_are_refused(data: bytes) -> None:
    with pytest.raises(BadCertificate):
        subject_name(data)


def test_no_cut_certificate_is_read(authority: Certificates) -> None:
    whole = der(authority.broker.pem)
    for end in range(len(whole)):
        with pytest.raises(BadCertificate):
            subject_name(whole[:end])
