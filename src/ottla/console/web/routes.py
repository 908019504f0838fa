"""A route of the HTTP API, and what its handler is given."""

from __future__ import annotations

import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.console.web.failures import from_validation, invalid

if TYPE_CHECKING:
    from ottla.client.admin.client import Admin
    from ottla.console.settings import ConsoleSettings
    from ottla.console.web.access import Access
    from ottla.console.web.live import Source

SAFE_METHODS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request: parts of the path by name, query and body as the types that the route names."""

    access: Access
    settings: ConsoleSettings
    path: Mapping[str, str]
    query: Any = None
    body: Any = None

    @property
    def admin(self) -> Admin:
        """The cluster, with the rights of whoever asks."""
        return self.access.admin


@dataclass(frozen=True, slots=True)
class Attachment:
    """An answer that is saved as a file, byte for byte; of routes that read only."""

    name: str
    data: bytes


Handler = Callable[[Call], Awaitable[Any]]
Commands = Callable[[Call], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Route:
    """`answer`, `query` and `body` are types that msgspec knows: they check what comes in, and the
    OpenAPI document is made of them.

    A route that writes (any method but GET) has `commands`, the `ottla` command lines that do the
    same. Asked with `?preview=true` it answers these, with what `preview` says, and writes nothing.
    """

    method: str
    path: str  # below /api/v1, with {names}
    handler: Handler
    summary: str
    answer: Any = Any
    query: Any = None
    body: Any = None
    commands: Commands | None = None
    preview: Handler | None = None
    # Bodies larger than this are refused before they are read.
    max_body_bytes: int = 1_000_000

    def __post_init__(self) -> None:
        if self.writes and self.commands is None:
            raise ValueError(f"{self.method} {self.path} writes: say by which command")

    @property
    def writes(self) -> bool:
        return self.method not in SAFE_METHODS

    @property
    def operation_id(self) -> str:
        words = re.sub(r"[^A-Za-z0-9]+", "_", self.path).strip("_")
        return f"{self.method.lower()}_{words}"


@dataclass(frozen=True, slots=True)
class Feed:
    """`GET /api/v1/live/<name>`: `open` makes what is polled every `interval_s` while somebody
    looks; all who ask with the same query share it."""

    name: str
    summary: str
    interval_s: float
    open: Callable[[Call], Source]
    query: Any = None
    message: Any = Any


def read_query(kind: Any, given: Mapping[str, str]) -> Any:
    """Raises ApiError; names that the route does not know are passed over."""
    if kind is None:
        return None
    try:
        return msgspec.convert(dict(given), kind, strict=False)
    except msgspec.ValidationError as error:
        raise from_validation(str(error)) from None


def read_body(kind: Any, body: bytes) -> Any:
    if kind is None:
        return None
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise from_validation(str(error)) from None
    except msgspec.DecodeError as error:
        raise from_validation(f"The body is no JSON: {error}") from None
    except RecursionError:
        raise from_validation("The body is nested too deeply.") from None


def wants_preview(given: Sequence[str]) -> bool:
    """Whoever writes `preview=1` does not want to write: what is unclear raises ApiError."""
    if not given or given == ["false"]:
        return False
    if given == ["true"]:
        return True
    raise invalid("preview is true or false, said once.", "preview")


def command_line(*words: object) -> str:
    """As one would type it; None is left out."""
    return shlex.join(str(word) for word in words if word is not None)
