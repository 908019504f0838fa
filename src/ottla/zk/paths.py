"""Which znode paths are legal (ZooKeeper's PathUtils). Pure."""

from __future__ import annotations

import re

from ottla.metadata.store import BadArgumentsError

# Java looks at UTF-16 units, so everything outside the basic plane is a surrogate and refused.
_FORBIDDEN = "\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff"
_NAMES = re.compile(rf"(?:/(?!\.\.?(?:/|\Z))[^/{_FORBIDDEN}]+)+", re.ASCII)

# The store makes no longer and no deeper ones; every event looks at all nodes above it.
MAX_PATH_CHARS = 16_384
MAX_DEPTH = 256

# Nodes every server has and nobody deletes (ZKDatabase.isSpecialPath).
SPECIAL_PATHS = frozenset(("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"))


def validate(path: str) -> None:
    """Raises BadArgumentsError unless `path` is absolute, normalised and printable."""
    if _NAMES.fullmatch(path) is None and path != "/":
        raise BadArgumentsError(path)


def validate_child(path: str, slash: int) -> None:
    """As `validate`, where a node is known at everything before the last slash."""
    if slash < 2:
        # Below the root, or after a double slash, which only looks as if it were.
        validate(path)
    elif _NAMES.fullmatch(path, slash) is None:
        raise BadArgumentsError(path)


def is_too_long(path: str) -> bool:
    """For a node to be made here, or watched."""
    # Two characters for each level at least.
    return len(path) > 2 * MAX_DEPTH and (len(path) > MAX_PATH_CHARS or path.count("/") > MAX_DEPTH)


def parent_of(path: str) -> str:
    """The parent of a path with at least one slash; the root is its own parent."""
    return path[: path.rfind("/")] or "/"
