"""A connection as a request sees it: whose session it is, and who the client has proved to be."""

from __future__ import annotations

from ottla.metadata.store import Acl, EventType
from ottla.zk import jute
from ottla.zk.server.acl import READ, Identity, allows
from ottla.zk.server.engine import Engine
from ottla.zk.server.pipeline import Outlet
from ottla.zk.server.sessions import Session


class Peer(Outlet):
    def __init__(self, engine: Engine, host: str) -> None:
        super().__init__()
        self.engine = engine
        self.host = host
        self.identities: tuple[Identity, ...] = (Identity("ip", host),)
        self.session: Session

    def may_read(self, acl: tuple[Acl, ...]) -> bool:
        return allows(acl, READ, self.identities)

    def notify(self, kind: EventType, path: str) -> None:
        self.engine.pipeline.push_event(self, jute.watch_event(kind, path))
