"""A chroot: the server's path of what the client calls by a shorter one. Pure."""

from __future__ import annotations

from ottla.zk.paths import validate


class Chroot:
    """`path` is "" where the client sees the server's whole tree."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def full(self, path: str, *, is_sequential: bool = False) -> str:
        """The server's path; a bad one is refused here, as ZooKeeper's own client does."""
        validate(path + "0" if is_sequential else path)
        if not self.path:
            return path
        return self.path if path == "/" else self.path + path

    def stripped(self, path: str) -> str:
        """The client's path of a node that the server names."""
        if not self.path:
            return path
        return path.removeprefix(self.path) or "/"

    def nodes(self) -> list[str]:
        """The server's paths of the chroot's own nodes, from the top down."""
        names = self.path.split("/")[1:]
        return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
