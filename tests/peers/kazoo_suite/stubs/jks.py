"""Stands in for pyjks, which kazoo's harness imports to write key stores: TLS is not judged."""

from unittest.mock import MagicMock

KeyStore = MagicMock()
PrivateKeyEntry = MagicMock()
TrustedCertEntry = MagicMock()
