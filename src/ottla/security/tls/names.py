"""Names in certificates, read from their DER form: the subject in the text that Java gives it, and
the alternative names.

Principals of ACLs are compared letter by letter, so the text has to be X500Principal.getName():
RFC 2253, the last part first, with keywords for nine attributes and bytes for all others
(sun.security.x509.AVA.toRFC2253String).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import OttlaError

_SEQUENCE, _SET, _OID, _OCTETS, _BOOLEAN = 0x30, 0x31, 0x06, 0x04, 0x01
_VERSION, _EXTENSIONS = 0xA0, 0xA3
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString.
_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"
_SUBJECT_ALT_NAME = "2.5.29.17"
# Kinds of GeneralName with a plain text: e-mail address, host, URI.
_TEXT_NAMES = (1, 2, 6)
_ADDRESS = 7


class BadCertificate(OttlaError):
    """Bytes that are not an X.509 certificate."""


class _Element(NamedTuple):
    tag: int
    content: bytes
    # With tag and length.
    whole: bytes


class AlternativeName(NamedTuple):
    """As X509Certificate.getSubjectAlternativeNames numbers and writes it."""

    kind: int
    value: str

    def __str__(self) -> str:
        return f"[{self.kind}, {self.value}]"


def subject_name(certificate: bytes) -> str:
    """Whom a certificate (DER) is for; raises BadCertificate, also where it names nobody at all."""
    parts = [_rdn(part.content) for part in _elements(_subject(certificate).content)]
    if not parts and not alternative_names(certificate):
        raise BadCertificate("the certificate is incomplete: its subject is empty")
    return ",".join(reversed(parts))


def alternative_names(certificate: bytes) -> frozenset[AlternativeName]:
    """Empty where the certificate (DER) has none."""
    for field in _fields(certificate):
        if field.tag != _EXTENSIONS:
            continue
        for extension in _elements(_first(field.content).content):
            parts = list(_elements(extension.content))
            if parts and _oid(parts[0].content) == _SUBJECT_ALT_NAME:
                names = _first(parts[-1].content).content
                return frozenset(_alternative_name(name) for name in _elements(names))
    return frozenset()


def _elements(data: bytes) -> Iterator[_Element]:
    position = 0
    while position < len(data):
        if position + 2 > len(data):
            raise BadCertificate("the certificate ends too early")
        tag, length, start = data[position], data[position + 1], position + 2
        if length & 0x80:
            digits = length & 0x7F
            if not 1 <= digits <= 4 or start + digits > len(data):
                raise BadCertificate("the certificate has a length that cannot be")
            length = int.from_bytes(data[start : start + digits], "big")
            start += digits
        end = start + length
        if end > len(data):
            raise BadCertificate("the certificate ends too early")
        yield _Element(tag, data[start:end], data[position:end])
        position = end


def _first(data: bytes) -> _Element:
    for element in _elements(data):
        return element
    raise BadCertificate("a part of the certificate is empty")


def _fields(certificate: bytes) -> list[_Element]:
    outer = _first(certificate)
    if outer.tag != _SEQUENCE:
        raise BadCertificate("not a certificate")
    return list(_elements(_first(outer.content).content))


def _subject(certificate: bytes) -> _Element:
    """After version (optional), serial number, algorithm, issuer and validity."""
    fields = _fields(certificate)
    index = 5 if fields and fields[0].tag == _VERSION else 4
    if len(fields) <= index or fields[index].tag != _SEQUENCE:
        raise BadCertificate("the certificate has no subject")
    return fields[index]


def _rdn(data: bytes) -> str:
    return "+".join(_attribute(item.content) for item in _elements(data))


def _attribute(data: bytes) -> str:
    parts = list(_elements(data))
    if len(parts) != 2 or parts[0].tag != _OID:
        raise BadCertificate("a name in the certificate is malformed")
    oid, value = _oid(parts[0].content), parts[1]
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode(errors='replace'))}"


def _escape(text: str) -> str:
    lead = len(text) - len(text.lstrip(_BLANKS))
    trail = len(text.rstrip(_BLANKS))
    escaped = []
    for index, letter in enumerate(text):
        if letter == "\0":
            escaped.append("\\00")
        elif letter in _ESCAPED or index < lead or index >= trail:
            escaped.append("\\" + letter)
        else:
            escaped.append(letter)
    return "".join(escaped)


def _oid(data: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for byte in data[:64]:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise BadCertificate("a name in the certificate is malformed")
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _alternative_name(name: _Element) -> AlternativeName:
    kind = name.tag & 0x1F
    if kind in _TEXT_NAMES:
        return AlternativeName(kind, name.content.decode(errors="replace"))
    if kind == _ADDRESS and len(name.content) in (4, 16):
        return AlternativeName(kind, str(ipaddress.ip_address(name.content)))
    return AlternativeName(kind, "#" + name.content.hex())
