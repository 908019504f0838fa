"""Stands in for pyOpenSSL, which kazoo's harness imports to make certificates: TLS is not judged."""

from unittest.mock import MagicMock

crypto = MagicMock()
