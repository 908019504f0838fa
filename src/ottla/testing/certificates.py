"""Certificates for tests: an authority of its own, and whatever it is asked to sign.

Made with the package `cryptography` (`pip install 'ottla[security]'`) in a folder, as PEM and as
PKCS12. They last a day and protect nothing: passwords are in this file.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PASSWORD = "for-tests"
BROKER_HOSTS = ("localhost", "127.0.0.1")
_LIFETIME = timedelta(days=1)
StoreType = Literal["PEM", "PKCS12"]


@dataclass(frozen=True, slots=True)
class Issued:
    """A key with its certificate: `pem` has both, without a password, `p12` with `PASSWORD`."""

    pem: Path
    p12: Path

    def properties(self, kind: StoreType = "PEM") -> dict[str, str]:
        if kind == "PEM":
            return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.pem)}
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.p12),
            "ssl.keystore.password": PASSWORD,
        }


class Certificates:
    """An authority in a folder, with a certificate for brokers on this machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.ca_pem = folder / "ca.pem"
        self.ca_p12 = folder / "ca.p12"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name("Ottla test authority")
        self._certificate = self._sign(
            self._name, self._key.public_key(), x509.BasicConstraints(ca=True, path_length=None)
        )
        self.ca_pem.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        self.ca_p12.write_bytes(
            pkcs12.serialize_java_truststore(
                [pkcs12.PKCS12Certificate(self._certificate, b"ca")],
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        self.broker = self.issue("broker", BROKER_HOSTS)

    def issue(
        self,
        name: str | x509.Name,
        hosts: Sequence[str] = (),
        *,
        file: str | None = None,
        lifetime: timedelta = _LIFETIME,
    ) -> Issued:
        """A certificate for a subject (a common name, or all of it), and for `hosts`."""
        subject = _common_name(name) if isinstance(name, str) else name
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[x509.ExtensionType] = [x509.BasicConstraints(ca=False, path_length=None)]
        if hosts:
            extensions.append(x509.SubjectAlternativeName([_general_name(host) for host in hosts]))
        certificate = self._sign(subject, key.public_key(), *extensions, lifetime=lifetime)
        label = file or (name if isinstance(name, str) else "subject")
        issued = Issued(self.folder / f"{label}.pem", self.folder / f"{label}.p12")
        _write_private(
            issued.pem,
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM),
        )
        _write_private(
            issued.p12,
            pkcs12.serialize_key_and_certificates(
                label.encode(),
                key,
                certificate,
                [self._certificate],
                serialization.BestAvailableEncryption(PASSWORD.encode()),
            ),
        )
        return issued

    def trust_properties(self, kind: StoreType = "PEM") -> dict[str, str]:
        """To trust whatever this authority has signed."""
        if kind == "PEM":
            return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca_pem)}
        return {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(self.ca_p12),
            "ssl.truststore.password": PASSWORD,
        }

    def broker_properties(self, kind: StoreType = "PEM") -> dict[str, str]:
        return self.broker.properties(kind) | self.trust_properties(kind)

    def client_properties(
        self, own: Issued | None = None, kind: StoreType = "PEM"
    ) -> dict[str, str]:
        """For a client, with a certificate of its `own` where brokers ask for one."""
        shown: Mapping[str, str] = {} if own is None else own.properties(kind)
        return {"security.protocol": "SSL", **self.trust_properties(kind), **shown}

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *extensions: x509.ExtensionType,
        lifetime: timedelta = _LIFETIME,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            # An hour ago: clocks differ.
            .not_valid_before(min(now, now + lifetime) - timedelta(hours=1))
            .not_valid_after(now + lifetime)
        )
        for extension in extensions:
            critical = isinstance(extension, x509.BasicConstraints)
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
