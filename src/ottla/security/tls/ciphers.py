"""Names of cipher suites: Java's, which Kafka's properties have, as OpenSSL says them."""

from __future__ import annotations

import re

# Python's ssl cannot choose among these: all of them or none (SSL_CTX_set_ciphersuites).
TLS_1_3 = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_SUITE = re.compile(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)")
_AES = re.compile(r"(AES|CAMELLIA|ARIA)_(128|256)_")


def openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`. Other words than
    Java's stay as they are: they may be OpenSSL's own."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        return suite
    exchange = match[1].replace("_", "-")
    if exchange == "RSA":  # the one that is not said
        exchange = ""
    cipher = _AES.sub(r"\1\2_", match[2])
    cipher = cipher.replace("3DES_EDE_CBC", "DES_CBC3").replace("_CBC_", "_")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"
    return "-".join(part for part in (exchange, cipher.replace("_", "-")) if part)
