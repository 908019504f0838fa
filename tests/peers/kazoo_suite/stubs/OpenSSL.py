"""Stands in for pyOpenSSL, with which kazoo's harness makes certificates: TLS is not judged."""

from unittest.mock import MagicMock

crypto = MagicMock()
