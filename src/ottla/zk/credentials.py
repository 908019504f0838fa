"""Who a process is on the store: `user:password` for ZooKeeper's digest scheme, in a file of its
own."""

from __future__ import annotations

from pathlib import Path

from ottla.errors import OttlaError

DIGEST = "digest"
_MAX_BYTES = 4096
_OTHERS = 0o077


class BadCredentials(OttlaError):
    """The file cannot be used; the text does not repeat what is in it."""


def read_digest(path: Path) -> bytes:
    """`user:password`, the only line of the file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES + 1).strip()
            mode = path.stat().st_mode
    except OSError as error:
        raise BadCredentials(f"{path}: {error.strerror or error}") from None
    user, colon, password = text.partition(b":")
    if not (user and colon and password) or b"\n" in text or len(text) > _MAX_BYTES:
        raise BadCredentials(f"{path} must hold one line, user:password")
    if mode & _OTHERS:
        raise BadCredentials(f"{path} can be read by others: chmod 600 {path}")
    return text


def digest_credentials(path: Path | None) -> list[tuple[str, bytes]]:
    """What a client shows to the store; nothing where no file is named."""
    return [] if path is None else [(DIGEST, read_digest(path))]
